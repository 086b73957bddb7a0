"""What every process needs beside its work: logs, metrics, traces, readiness, locks."""
