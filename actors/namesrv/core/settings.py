"""What operators may change of a name server: its KV table, and three settings.

Source: apache/rocketmq, namesrv/kvconfig/KVConfigManager.java, common/namesrv/NamesrvConfig.java,
common/Configuration.java, 5.3.3; broker.md 2.6.

Differs from upstream: a setting that would have no effect is refused and not stored. One that an
upstream name server has stored in the file is kept there. GET_NAMESRV_CONFIG names the settings
that have an effect, and those of which an operator would expect one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from wire.broker.codes import ResponseCode
from wire.broker.routes import CONFIG_BLACK_LIST

KV_FILE: Final = "kvConfig.json"
CONFIG_FILE: Final = "namesrv.properties"
KV_BYTES_MAX: Final = 4 << 20
"""The most bytes of the file with the KV table, all of which are written at each change."""

ORDER_MESSAGE_ENABLE: Final = "orderMessageEnable"
RETURN_ORDER_TOPIC_CONFIG: Final = "returnOrderTopicConfigToBroker"
ENABLE_ALL_TOPIC_LIST: Final = "enableAllTopicList"
DEFAULTS: Final[Mapping[str, bool]] = {
    ENABLE_ALL_TOPIC_LIST: True,
    ORDER_MESSAGE_ENABLE: False,
    RETURN_ORDER_TOPIC_CONFIG: True,
}
"""The settings that can be changed, with upstream's names and defaults."""
FIXED: Final[Mapping[str, str]] = {
    "clusterTest": "false",
    "configBlackList": ";".join(CONFIG_BLACK_LIST),
    "deleteTopicWithBrokerRegistration": "false",
    "enableControllerInNamesrv": "false",
    "needWaitForService": "false",
    "notifyMinBrokerIdChanged": "false",
    "scanNotActiveBrokerInterval": "5000",
    "serverChannelMaxIdleTimeSeconds": "120",
    "supportActingMaster": "false",
}
"""Settings that are shown and cannot be changed."""


@attrs.frozen
class Refusal:
    code: ResponseCode
    remark: str


def changed(
    settings: Mapping[str, bool], asked: Mapping[str, str], *, fixed: Mapping[str, str]
) -> dict[str, bool] | Refusal:
    """Return the settings after a change, or a refusal of the whole change.

    Args:
        settings: the present settings.
        asked: the new values by key.
        fixed: the other settings that are shown. A change may name them with their present values.
    """
    found = dict(settings)
    for key, value in asked.items():
        if key in CONFIG_BLACK_LIST:
            return Refusal(ResponseCode.NO_PERMISSION, f"{key} is not for changing")
        if key in found and value in ("true", "false"):
            found[key] = value == "true"
        elif key in found:
            remark = f"{key} is true or false, not {value[:100]!r}"
            return Refusal(ResponseCode.INVALID_PARAMETER, remark)
        elif fixed.get(key) != value:
            remark = f"{key[:100]!r} cannot be changed here; {', '.join(sorted(found))} can"
            return Refusal(ResponseCode.INVALID_PARAMETER, remark)
    return found


def shown(settings: Mapping[str, bool]) -> dict[str, str]:
    """Return the settings as text."""
    return {key: "true" if value else "false" for key, value in settings.items()}
