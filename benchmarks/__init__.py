"""Measurements of store and broker, side by side with RocketMQ's own and with what Python programs embed instead.

    make bench                                   # everything, about an hour
    python -m benchmarks --quick --out r.json    # shorter runs, about 10 minutes
    python -m benchmarks --only put,query        # some of it
    python -m benchmarks --only wire             # our broker and RocketMQ's, driven by RocketMQ's client
    python -m benchmarks --only spark            # Spark on our store and Spark on Kafka, in turns
    python -m benchmarks --no-peers              # our store alone; needs no Java
    python -m benchmarks.before_after ../other   # another checkout of this project and this one, by processor time

One module a measurement (``put``, ``scan``, ``query``, ``recover``, ``embedded``, ``startup``, ``wire``, ``spark``);
each says what is run on our side, what on the other, and which figures are compared. ``rounds`` runs them in turns,
``report`` makes the table. How to keep it fair:

* both sides store the same messages (``messages.py``) and make them inside the timed loop;
* ours and theirs take turns within one run on one machine, medians are compared, and "theirs" is the faster of
  RocketMQ 4.9.7 and 5.5.0;
* each of ours runs in a process of its own (``child.py``), so that no run inherits another's imports or garbage;
* rates and latencies come from separate runs: reading the clock twice a put would take a tenth of its rate;
* what the rest of the machine used meanwhile is measured and shown; a run beside other work proves nothing.
"""
