#!/usr/bin/env python3
"""Health check of the image: exits with 0 if the given address, by default /readyz of this server, answers 200."""

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
