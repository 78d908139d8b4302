"""Devices that are described to XLA instead of being there: programs are compiled, never run.

On a machine without any accelerator this needs only packages: jax-cuda12-plugin, jax-cuda12-pjrt
and nvidia-cuda-nvcc-cu12 for a GPU, libtpu for a TPU, and the `ENVIRONMENT` below.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import numpy as np

GPU, TPU = "gpu", "tpu"
DEVICES = (GPU, TPU)
_PACKAGES = {GPU: "jax_plugins.xla_cuda12", TPU: "libtpu"}
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
    # Otherwise JAX or libtpu would ask Google's cloud what they run on, for minutes.
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # there is no TPU that two could want
}
"""Of a process that compiles for one of them."""
H100 = """
gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: 84978434048
  shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 3 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""


def is_installed(platform: str) -> bool:
    """Whether the packages that compile for a platform are there."""
    try:
        return find_spec(_PACKAGES[platform]) is not None
    except ModuleNotFoundError:
        return False


def skip_unless_installed(platform: str) -> None:
    """Skip the test that asks, or fail it if `tests/matrix.py` has installed the packages."""
    import pytest

    if not is_installed(platform):
        assert os.environ.get("RETRACE_TEST_DEVICE") != platform
        pytest.skip(f"nothing here compiles for a {platform}: tests/matrix.py --{platform}")


def devices(platform: str) -> Any:
    """An H100, or four chips of a TPU v5e."""
    from jax.experimental import topologies

    if platform == GPU:
        described: Any = topologies.get_topology_desc(
            "", "cuda", target_config=H100, topology="1x1x1"
        )
    else:
        described = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
    return described.devices


def placed(platform: str, *arrays: Any) -> list[Any]:
    """What stands for arrays on the first device."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(devices(platform)[:1]), ("x",))
    here = NamedSharding(mesh, PartitionSpec())
    return [jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=here) for one in arrays]
