"""Makes recordings from JAX's logs, for programs that were not recorded."""
