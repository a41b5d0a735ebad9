"""Camera and pose, from activate to deactivate: subscriptions, keyframe choice, health."""

from __future__ import annotations

import time
from collections.abc import Callable

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from semflip_core.frames import CameraMount
from semflip_core.ingest import Ingest
from semflip_core.memory import VideoMemory
from semflip_ros.cameras import COMPRESSED_TOPIC, RAW_TOPIC, subscribe_images
from semflip_ros.diagnostics import ERROR, WARN, Health
from semflip_ros.frame_feed import FrameFeed
from semflip_ros.node_settings import NodeSettings
from semflip_ros.pose_sources import TOPICS, PoseSource, TopicPoses, tf_poses
from semflip_ros.silence import Silence, qos_events


def _qos(reliability: str, depth: int) -> QoSProfile:
    return QoSProfile(depth=depth, reliability=ReliabilityPolicy[reliability.upper()])


class Sensing:
    """Everything between the camera's driver and the memory, while the node is active.

    Args:
        map_id: of the map the robot is on now.
        on_keyframes: told after keyframes were stored.
        on_time_jump: told why, after stamps went back; returns the map_id from then on.

    Raises:
        ConfigError: the pose source cannot be had here.
    """

    def __init__(
        self,
        node: Node,
        memory: VideoMemory,
        settings: NodeSettings,
        *,
        map_id: str,
        on_keyframes: Callable[[], None],
        on_time_jump: Callable[[str], str],
    ) -> None:
        self._node = node
        self._settings = settings
        self._incompatible: dict[str, str] = {}
        self._group = MutuallyExclusiveCallbackGroup()
        ingest = Ingest(
            memory,
            settings.keyframes,
            map_id=map_id,
            mount=settings.mount(),
            needs_pose=settings.needs_pose,
            on_time_jump=lambda segment: on_time_jump(f"stamps went back (segment {segment})"),
        )
        self.feed = FrameFeed(
            ingest, backlog_bytes=settings.image_backlog_bytes, on_keyframes=on_keyframes
        )
        self._poses = self._subscribe_poses()
        self._images = self._subscribe_images()
        self.feed.start()

    def set_map(self, map_id: str) -> None:
        """Keyframes from here in the stream are on another map."""

        def change(ingest: Ingest) -> list[int]:
            ingest.map_id = map_id
            return []

        self.feed.then(change)

    def expire(self) -> None:
        """Give up on images whose pose does not come, once poses have stopped coming.

        Stamps may be of another day than the node's clock (a replay without /clock), so the wall
        time since the last pose decides, not the age of a stamp.
        """
        wait_s = self._settings.keyframes.max_pose_wait_s
        if time.monotonic() - self.feed.last_pose > 2.0 * wait_s:
            after_all_ns = self.feed.last_stamp_ns + round(wait_s * 1e9) + 1
            self.feed.then(lambda ingest: ingest.expire(after_all_ns))

    def _mount_known(self, mount: CameraMount) -> None:
        def change(ingest: Ingest) -> list[int]:
            ingest.mount = mount
            return []

        self.feed.then(change)

    def _subscribe_images(self) -> object:
        chosen = self._settings
        compressed = chosen.image_transport == "compressed"
        topic = self._node.resolve_topic_name(COMPRESSED_TOPIC if compressed else RAW_TOPIC)
        self._no_images = Silence(
            f"images on '{topic}'",
            "is the camera running, the topic remapped, image_transport right?",
            chosen.silence_warning_s,
        )
        return subscribe_images(
            self._node,
            self.feed,
            compressed=compressed,
            settings=chosen.keyframes,
            qos=_qos(chosen.image_reliability, chosen.image_depth),
            group=self._group,
            events=qos_events(
                topic,
                chosen.image_reliability,
                "image_reliability",
                lambda text: self._incompatible.update(images=text),
            ),
        )

    def _subscribe_poses(self) -> PoseSource:
        chosen = self._settings
        if chosen.pose_source == "tf":
            what = f"transform '{chosen.global_frame}' <- '{chosen.base_frame}'"
        else:
            what = f"poses on '{self._node.resolve_topic_name(TOPICS[chosen.pose_source][0])}'"
        self._no_poses = Silence(
            what,
            "is localisation running, the topic remapped, pose_source right?",
            chosen.silence_warning_s,
        )
        if chosen.pose_source == "tf":
            return tf_poses(
                self._node,
                self.feed,
                global_frame=chosen.global_frame,
                base_frame=chosen.base_frame,
                camera_frame=chosen.camera_frame,
                rate_hz=chosen.tf_rate_hz,
                group=MutuallyExclusiveCallbackGroup(),
                mount_known=self._mount_known,
            )
        return TopicPoses(
            self._node,
            self.feed,
            kind=chosen.pose_source,
            base_frame=chosen.base_frame,
            qos=_qos(chosen.pose_reliability, chosen.pose_depth),
            group=MutuallyExclusiveCallbackGroup(),
            events=qos_events(
                what,
                chosen.pose_reliability,
                "pose_reliability",
                lambda text: self._incompatible.update(poses=text),
            ),
        )

    def health(self) -> Health:
        """Images and poses in, kept, dropped by reason; warns of silence."""
        health = Health("camera")
        health.put(self.feed.counts())
        if self._no_images.check(self.feed.last_image):
            health.note(WARN, f"no {self._no_images.what}")
        if self._no_poses.check(self.feed.last_pose):
            health.note(WARN, f"no {self._no_poses.what}")
        for text in self._incompatible.values():
            health.note(ERROR, text)
        return health

    def close(self) -> None:
        """End the subscriptions first, then work off what came before."""
        self._node.destroy_subscription(self._images)  # type: ignore[arg-type]
        self._poses.close()
        self.feed.stop()
