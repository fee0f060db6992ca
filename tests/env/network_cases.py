"""All that every Network must do."""

from __future__ import annotations

import held_contract
import network_contract
import sending_contract

CASES = network_contract.CASES + sending_contract.CASES + held_contract.CASES
