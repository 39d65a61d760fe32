"""The conformance kit of sinks: batches, replays, two writers and kills, against a real sink."""
