"""Tests of `retrace export`."""
