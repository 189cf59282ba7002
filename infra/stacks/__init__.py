"""Stacks with one job each, in order: state, queues, compute, api."""
