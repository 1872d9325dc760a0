"""Processor time of short pieces of work: figures that hold on a machine that others use too.

``cases``, ``broker_cases`` and ``client_cases`` say what is done, ``worker`` does a slice of it when told;
``benchmarks.before_after`` has one worker for each of two trees and lets them take turns.
"""
