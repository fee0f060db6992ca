"""The golden frames of DLedger are read by a module beside the tests of the wire."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "wire"))
