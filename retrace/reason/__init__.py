"""What caused each miss, whether it could have been avoided, and how."""
