#!/usr/bin/env python3
"""Exit code 0 when the address given, or /readyz of the server here, answers 200. The health check of the image."""

import os
import sys
import urllib.request

TIMEOUT_S = 8


def main() -> None:
    address = sys.argv[1] if len(sys.argv) > 1 else f"http://127.0.0.1:{os.environ.get('GIRCSE_PORT') or 7860}/readyz"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=TIMEOUT_S):
            pass
    except OSError as error:
        sys.exit(f"{address}: {error}")


main()
