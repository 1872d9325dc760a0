"""Measurements of store, broker, clients and pipeline, side by side with what they are compared with.

    make bench                                        # everything, some hours
    python -m benchmarks --quick --out r.json         # shorter runs, one round
    python -m benchmarks --only store --rounds 5      # some of it: put, scan, query, recover, embedded, startup
    python -m benchmarks --only wire                  # our broker and RocketMQ's, driven by RocketMQ's client
    python -m benchmarks --only clients               # our Python client, aiokafka and confluent-kafka
    python -m benchmarks --only spark                 # Spark on our store and Spark on Kafka, in turns
    python -m benchmarks --only replication           # a master and a slave of ours, and of RocketMQ
    python -m benchmarks --only growth                # what the same costs when there is a hundred times as much
    python -m benchmarks --no-peers                   # our side alone; needs no Java
    python -m benchmarks report r.json ...            # docs/performance.md from results
    python -m benchmarks.before_after ../other        # another checkout and this one, by processor time

A package a kind of measurement (``store``, ``wire``, ``clients``, ``spark``, ``replication``, ``growth``); ``parts``
lists them, ``rounds`` runs both sides in turns, ``compare`` makes verdicts, ``quiet`` watches what others do meanwhile,
``results`` is what is written, ``page`` makes the page of it. How to keep it fair:

* both sides store the same messages (``messages.py``) and make them inside the timed loop;
* ours and theirs take turns within one run on one machine, ratios are taken within a round, and "theirs" is the better
  of those there are;
* each of ours runs in a process of its own (``child.py``), so that no run inherits another's imports or garbage;
* rates and latencies come from separate runs: reading the clock twice a put would take a tenth of its rate;
* what the rest of the machine used meanwhile is measured and shown; a run beside other work proves nothing.
"""
