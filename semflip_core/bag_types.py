"""Message definitions of a recording, and ROS 1 messages as ROS 2 writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semflip_core.errors import BagError

#: ROS 1 names of types that ROS 2 knows under another name, field for field the same.
_SAME_LAYOUT = {"tf/msg/tfMessage": "tf2_msgs/msg/TFMessage"}


def full_type_name(msgtype: str) -> str:
    """``sensor_msgs/Image`` and ``sensor_msgs/msg/Image`` both as the latter."""
    parts = msgtype.split("/")
    full = f"{parts[0]}/msg/{parts[1]}" if len(parts) == 2 else msgtype
    return _SAME_LAYOUT.get(full, full)


@dataclass(frozen=True, slots=True)
class MessageTypes:
    """Type stores for one message type: ``read`` for CDR, ``ros1`` for ROS 1's own bytes."""

    read: Any
    ros1: Any = None

    def cdr_of_ros1(self, raw: bytes, msgtype: str) -> bytes:
        """ROS 1 bytes as ROS 2 writes them: the same fields, a header without ``seq``."""
        return bytes(self.read.serialize_cdr(self.ros1.deserialize_ros1(raw, msgtype), msgtype))


class TypeStores:
    """Message definitions: those of a current ROS first, those in the recording otherwise."""

    def __init__(self) -> None:
        self._by_type: dict[str, MessageTypes] = {}

    def of(self, connection: Any, *, ros1: bool) -> MessageTypes:
        name = full_type_name(connection.msgtype)
        if name not in self._by_type:
            from rosbags.typesys import TypesysError

            try:
                self._by_type[name] = self._make(connection, name, ros1)
            except TypesysError as error:
                raise BagError(f"the definition of {name} cannot be read: {error}") from error
        return self._by_type[name]

    def _make(self, connection: Any, name: str, ros1: bool) -> MessageTypes:
        from rosbags.interfaces import MessageDefinitionFormat
        from rosbags.typesys import (
            Stores,
            get_types_from_idl,
            get_types_from_msg,
            get_typestore,
        )

        latest = get_typestore(Stores.LATEST)
        known = get_typestore(Stores.ROS1_NOETIC) if ros1 else latest
        if name not in known.fielddefs and connection.msgdef.format != MessageDefinitionFormat.NONE:
            known = get_typestore(Stores.EMPTY)
            parse = (
                get_types_from_msg
                if connection.msgdef.format == MessageDefinitionFormat.MSG
                else lambda text, _: get_types_from_idl(text)
            )
            known.register(parse(connection.msgdef.data, name))
        if not ros1:
            return MessageTypes(known)
        header = "std_msgs/msg/Header"
        fields = {k: v for k, v in known.fielddefs.items() if k != header}
        without_seq = get_typestore(Stores.EMPTY)
        without_seq.register({**fields, header: latest.fielddefs[header]})
        return MessageTypes(without_seq, known)
