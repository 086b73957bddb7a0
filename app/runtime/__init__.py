"""Services for every process: logs, metrics, traces, readiness checks, locks."""
