"""The node in memory behind a real API server is the API's own test kit."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "api"))
