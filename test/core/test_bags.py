"""Recordings: what can be read is read whole, what cannot says which file and what to do."""

from __future__ import annotations

import logging
import shutil

import numpy as np
import pytest
import yaml

pytest.importorskip("rosbags")

from rosbags.rosbag2 import CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as Writer2

from semflip_core.bag_topics import TfPoses, choose_image_topic, choose_pose_source
from semflip_core.bag_types import full_type_name
from semflip_core.bags import Bag, memory_from_bag, open_bag
from semflip_core.errors import BagError
from semflip_core.memory import VideoMemory
from semflip_core.settings import KeyframeSettings
from support.mcap_chunks import recompress
from support.recordings import (
    COMPRESSED,
    IMAGE,
    ODOMETRY,
    SECOND,
    STORE,
    edit_metadata,
    header,
    odometry,
    storage_file,
    write_bag,
    write_ros1_bag,
)


@pytest.mark.parametrize(
    ("storage", "compression"),
    [
        (StoragePlugin.MCAP, CompressionMode.NONE),
        (StoragePlugin.MCAP, CompressionMode.STORAGE),
        (StoragePlugin.MCAP, CompressionMode.MESSAGE),
        (StoragePlugin.MCAP, CompressionMode.FILE),
        (StoragePlugin.SQLITE3, CompressionMode.NONE),
        (StoragePlugin.SQLITE3, CompressionMode.MESSAGE),
        (StoragePlugin.SQLITE3, CompressionMode.FILE),
    ],
)
def test_every_storage_and_compression_gives_every_message(tmp_path, storage, compression):
    with open_bag(write_bag(tmp_path / "bag", storage=storage, compression=compression)) as bag:
        assert [(t.name, t.msgtype, t.count) for t in bag.topics] == [
            ("/camera/image_raw", IMAGE, 5),
            ("/odom", ODOMETRY, 5),
        ]
        assert (bag.start_ns, bag.end_ns) == (101 * SECOND, 105 * SECOND)
        images = list(bag.messages(["/camera/image_raw"]))
        assert [m.header_ns for m in images] == [i * SECOND + 5 for i in range(1, 6)]
        assert [m.log_ns for m in images] == [(i + 100) * SECOND for i in range(1, 6)]
        assert images[0].decode().data.tolist() == list(range(12))
        assert len(list(bag.messages())) == 10
        assert bag.shortfall == {}


@pytest.mark.parametrize("compression", ["", "lz4", "zstd"])
def test_mcap_chunks_of_every_compression_give_every_message(tmp_path, compression):
    path = write_bag(tmp_path / "bag", compression=CompressionMode.STORAGE, frames=200)
    file = storage_file(path)
    assert recompress(file, compression) > 0
    assert (compression.encode() or b"rgb8") in file.read_bytes()
    with open_bag(path) as bag:
        images = list(bag.messages(["/camera/image_raw"]))
        assert [m.header_ns for m in images] == [i * SECOND + 5 for i in range(1, 201)]
        assert all(m.decode().data.tolist() == list(range(12)) for m in images)
        assert bag.shortfall == {}


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_damaged_chunk_of_every_compression_is_an_error(tmp_path, compression):
    path = write_bag(tmp_path / "bag", compression=CompressionMode.STORAGE, frames=200)
    file = storage_file(path)
    recompress(file, compression)
    data = bytearray(file.read_bytes())
    inside = data.find(compression.encode()) + len(compression) + 8 + 40
    data[inside : inside + 8] = b"\x5a" * 8
    file.write_bytes(bytes(data))
    with open_bag(path) as bag, pytest.raises(BagError, match=r"damaged after.*mcap recover"):
        list(bag.messages())


def test_the_parts_of_a_split_bag_follow_each_other(tmp_path):
    path, later = write_bag(tmp_path / "bag"), write_bag(tmp_path / "later", first=6)
    shutil.copy(storage_file(later), path / "bag_1.mcap")
    described = yaml.safe_load((path / "metadata.yaml").read_text())
    inside = described["rosbag2_bagfile_information"]
    inside["relative_file_paths"].append("bag_1.mcap")
    inside["files"] = []
    inside["message_count"] *= 2
    for topic in inside["topics_with_message_count"]:
        topic["message_count"] *= 2
    (path / "metadata.yaml").write_text(yaml.safe_dump(described))
    with open_bag(path) as bag:
        stamps = [m.header_ns // SECOND for m in bag.messages(["/camera/image_raw"])]
        assert bag.shortfall == {}
    assert stamps == list(range(1, 11))


@pytest.mark.parametrize(
    ("said", "ending"), [("bgr8; png compressed bgr8", ".jpg"), ("jpeg", ".png"), ("", ".png")]
)
def test_a_compressed_picture_is_what_its_bytes_are_whatever_its_format_says(
    tmp_path, said, ending
):
    cv2 = pytest.importorskip("cv2")
    bgr = np.zeros((48, 64, 3), np.uint8)
    bgr[...] = (20, 30, 220)
    kind = STORE.types[COMPRESSED]
    with Writer2(tmp_path / "bag", version=9) as writer:
        images = writer.add_connection("/camera/image/compressed", COMPRESSED, typestore=STORE)
        message = kind(
            header=header(SECOND, "camera"), format=said, data=cv2.imencode(ending, bgr)[1].ravel()
        )
        writer.write(images, SECOND, STORE.serialize_cdr(message, COMPRESSED))
    with VideoMemory() as memory:
        made = memory_from_bag(
            tmp_path / "bag", memory, keyframes=KeyframeSettings(), needs_pose=False
        )
        assert made.counters == {"kept": 1}
        shown = memory.picture(memory.records()[0].id)
    assert np.abs(shown.astype(int) - (220, 30, 20)).max() < 12, "red stays red"


def test_a_bag_of_fewer_messages_says_so_in_the_counters_of_its_memory(tmp_path):
    path = write_bag(tmp_path / "bag")
    edit_metadata(path, "message_count: 10", "message_count: 13")
    edit_metadata(path, "message_count: 5", "message_count: 8")
    with VideoMemory() as memory:
        made = memory_from_bag(path, memory, keyframes=KeyframeSettings(), needs_pose=False)
    assert made.counters["missing_from_file"] >= 3


def test_ros1_messages_come_as_cdr_that_a_ros2_node_can_publish(tmp_path):
    with open_bag(write_ros1_bag(tmp_path / "old.bag")) as bag:
        messages = list(bag.messages())
    assert [m.header_ns for m in messages] == [i * SECOND + 5 for i in range(1, 4)]
    assert messages[0].msgtype == IMAGE
    as_ros2 = STORE.deserialize_cdr(messages[0].cdr, IMAGE)
    assert (as_ros2.encoding, as_ros2.step, as_ros2.header.frame_id) == ("rgb8", 6, "camera")
    assert messages[0].decode().data.tolist() == list(range(12))


def test_a_directory_of_ros1_bags_reads_as_one(tmp_path):
    write_ros1_bag(tmp_path / "a.bag", 2)
    write_ros1_bag(tmp_path / "b.bag", 3)
    with open_bag(tmp_path) as bag:
        assert bag.topics[0].count == 5
        assert len(list(bag.messages())) == 5


def test_old_type_spelling_is_understood(tmp_path):
    assert full_type_name("sensor_msgs/Image") == IMAGE
    path = write_bag(tmp_path / "bag", storage=StoragePlugin.SQLITE3)
    edit_metadata(path, IMAGE, "sensor_msgs/Image")
    import sqlite3

    database = sqlite3.connect(storage_file(path))
    database.execute("UPDATE topics SET type = 'sensor_msgs/Image' WHERE type = ?", (IMAGE,))
    database.commit()
    database.close()
    with open_bag(path) as bag:
        message = next(iter(bag.messages(["/camera/image_raw"])))
        assert message.msgtype == IMAGE
        assert message.decode().width == 2


def test_missing_metadata_is_said_and_the_storage_read(tmp_path, caplog):
    path = write_bag(tmp_path / "bag")
    (path / "metadata.yaml").unlink()
    with caplog.at_level(logging.WARNING, "semflip"), open_bag(path) as bag:
        assert len(list(bag.messages())) == 10
    assert "metadata.yaml is missing" in caplog.text
    assert "ros2 bag reindex" in caplog.text


def test_missing_metadata_with_compressed_storage_names_the_cure(tmp_path):
    path = write_bag(tmp_path / "bag", compression=CompressionMode.FILE)
    (path / "metadata.yaml").unlink()
    with pytest.raises(BagError, match=r"metadata\.yaml is missing.*zstd -d.*reindex"):
        open_bag(path)


@pytest.mark.parametrize("keep", [0.3, 0.7, 0.99])
def test_truncated_mcap_names_file_and_recovery(tmp_path, keep):
    path = write_bag(tmp_path / "bag", frames=50)
    file = storage_file(path)
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(BagError, match=r"bag: cannot be read: .*mcap recover"):
        open_bag(path)


def test_damage_inside_a_chunk_is_found_while_reading(tmp_path):
    path = write_bag(tmp_path / "bag", compression=CompressionMode.STORAGE, frames=200)
    file = storage_file(path)
    data = bytearray(file.read_bytes())
    chunk = data.find(b"zstd") + 4 + 8
    data[chunk : chunk + 8] = b"\x5a" * 8
    file.write_bytes(bytes(data))
    with open_bag(path) as bag, pytest.raises(BagError, match="damaged after"):
        list(bag.messages())


def test_unclosed_sqlite_is_refused_with_the_cure(tmp_path):
    path = write_bag(tmp_path / "bag", storage=StoragePlugin.SQLITE3)
    file = storage_file(path)
    file.with_name(file.name + "-wal").write_bytes(b"messages that only live here")
    with pytest.raises(BagError, match="was not closed.*wal_checkpoint"):
        open_bag(path)


def test_missing_part_of_a_split_bag_is_named(tmp_path):
    path = write_bag(tmp_path / "bag")
    (path / storage_file(path).name).rename(path / "somewhere_else.mcap")
    with pytest.raises(BagError, match=r"are missing: .*bag\.mcap.*copy the missing parts"):
        open_bag(path)


def test_fewer_messages_than_declared_is_said(tmp_path, caplog):
    path = write_bag(tmp_path / "bag", storage=StoragePlugin.SQLITE3)
    import sqlite3

    database = sqlite3.connect(storage_file(path))
    database.execute("DELETE FROM messages WHERE id IN (SELECT max(id) FROM messages)")
    database.commit()
    database.close()
    with caplog.at_level(logging.WARNING, "semflip"), open_bag(path) as bag:
        assert len(list(bag.messages())) == 9
        assert bag.shortfall == {"/camera/image_raw": 1}
    assert "declares 5 messages and gave 4" in caplog.text


def test_wrong_paths_are_told_apart(tmp_path):
    with pytest.raises(BagError, match="no such recording"):
        open_bag(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(BagError, match=r"no recording in it .*notes\.txt"):
        open_bag(tmp_path)
    with pytest.raises(BagError, match="not a recording by its name"):
        open_bag(tmp_path / "notes.txt")
    (tmp_path / "x.mcap").write_bytes(b"")
    with pytest.raises(BagError, match=r"x\.mcap: cannot be read"):
        open_bag(tmp_path / "x.mcap")


def test_empty_bag_and_bag_without_camera_list_what_is_there(tmp_path):
    with Writer2(tmp_path / "empty", version=9):
        pass
    with open_bag(tmp_path / "empty") as bag:
        assert list(bag.messages()) == []
        with pytest.raises(BagError, match="no camera topic.*has no topics"):
            choose_image_topic(bag, None)
    with open_bag(write_bag(tmp_path / "depth", image_topic="/depth/image")) as bag:
        with pytest.raises(BagError, match=r"no camera topic(.|\n)*/depth/image(.|\n)*/odom"):
            choose_image_topic(bag, None)
        with pytest.raises(BagError, match="/odom is nav_msgs/msg/Odometry, not a camera topic"):
            choose_image_topic(bag, "/odom")
        assert choose_image_topic(bag, "/depth/image").count == 5
        with pytest.raises(BagError, match="no topic /typo"):
            list(bag.messages(["/typo"]))


def test_poses_come_from_odometry_and_broken_ones_are_counted(tmp_path):
    path = tmp_path / "bag"
    with Writer2(path, version=9) as writer:
        poses = writer.add_connection("/odom", ODOMETRY, typestore=STORE)
        for i, x in enumerate((1.0, float("nan"), 3.0), start=1):
            raw = STORE.serialize_cdr(odometry(i * SECOND, x), ODOMETRY)
            writer.write(poses, i * SECOND, raw)
    with open_bag(path) as bag:
        source = choose_pose_source(bag, None, required=True)
        assert source is not None
        read = [item for m in bag.messages(source.topics) for item in source.read(m)]
    assert [(stamp, pose.position[0]) for stamp, pose in read] == [(SECOND, 1.0), (3 * SECOND, 3.0)]
    assert source.dropped == 1


def _tf(stamp_ns: int, parent: str, child: str, x: float, yaw: float):
    from semflip_core.poses import quaternion_from_yaw

    t = STORE.types
    qx, qy, qz, qw = quaternion_from_yaw(yaw)
    return t["geometry_msgs/msg/TransformStamped"](
        header=header(stamp_ns, parent),
        child_frame_id=child,
        transform=t["geometry_msgs/msg/Transform"](
            translation=t["geometry_msgs/msg/Vector3"](x=x, y=0.0, z=0.0),
            rotation=t["geometry_msgs/msg/Quaternion"](x=qx, y=qy, z=qz, w=qw),
        ),
    )


def test_tf_is_composed_from_map_to_base(tmp_path):
    kind = "tf2_msgs/msg/TFMessage"
    message = STORE.types[kind]
    with Writer2(tmp_path / "bag", version=9) as writer:
        tf = writer.add_connection("/tf", kind, typestore=STORE)
        for stamp, item in (
            (1, _tf(SECOND, "odom", "base_link", 2.0, 0.0)),
            (2, _tf(2 * SECOND, "map", "odom", 1.0, np.pi / 2)),
            (3, _tf(3 * SECOND, "odom", "base_link", 3.0, 0.0)),
        ):
            writer.write(tf, stamp * SECOND, STORE.serialize_cdr(message([item]), kind))
    with open_bag(tmp_path / "bag") as bag:
        source = TfPoses(bag)
        read = [item for m in bag.messages(source.topics) for item in source.read(m)]
    assert [stamp for stamp, _ in read] == [2 * SECOND, 3 * SECOND]
    pose = read[1][1]
    assert pose.frame_id == "map"
    assert pose.position == pytest.approx((1.0, 3.0, 0.0))
    assert pose.yaw == pytest.approx(np.pi / 2)


def test_topics_survive_a_copy_of_the_directory(tmp_path):
    path = write_bag(tmp_path / "bag")
    shutil.copytree(path, tmp_path / "renamed")
    with open_bag(tmp_path / "renamed") as bag:
        assert isinstance(bag, Bag)
        assert bag.message_count == 10
