"""The robot's drive: where to look from, how to get there, and its pose at every instant.

A differential-drive base of 0.5 m follows an A* path by pure pursuit and turns on the spot at
viewpoints chosen so that every object comes into view from a good distance.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from semflip_core.errors import DatasetError
from semflip_core.poses import Pose, quaternion_from_yaw, wrap_angle
from semflip_train.simulation.floor import Floor, Point, candidates
from semflip_train.simulation.placed import Placed
from semflip_train.simulation.plan import Plan
from semflip_train.simulation.rooms import Scene
from semflip_train.simulation.settings import CameraSettings, DriveSettings


@dataclass(frozen=True, slots=True)
class TimedPose:
    """A pose and when: seconds since the drive began."""

    time_s: float
    x: float
    y: float
    yaw: float

    def pose(self, frame_id: str = "map") -> Pose:
        """As a pose of the base on the floor."""
        return Pose(frame_id, (self.x, self.y, 0.0), quaternion_from_yaw(self.yaw))


@dataclass(frozen=True, slots=True)
class Stop:
    """A viewpoint and the directions (radians) to turn through there."""

    at: Point
    bearings: tuple[float, ...]


def drive(
    scene: Scene, camera: CameraSettings, settings: DriveSettings, rng: np.random.Generator
) -> tuple[TimedPose, ...]:
    """Drive past everything; poses at ``settings.pose_hz``.

    Raises:
        DatasetError: the furniture leaves the robot no way (make the scene with another seed).
    """
    floor = Floor(scene.plan, scene.objects, settings.margin_m)
    stops = _stops(scene, floor, camera, settings)
    if not stops:
        raise DatasetError(f"scene {scene.seed}: no place from which anything can be seen")
    route = _tour(scene.plan, floor, stops)
    first = route[0]
    heading = first.bearings[0] if first.bearings else float(rng.uniform(-math.pi, math.pi))
    base = _Base(first.at, heading, settings)
    base.wait(0.2)
    for stop in route:
        base.follow(_path(floor, (base.x, base.y), stop.at))
        for angle in _turns(base.yaw, stop.bearings):
            base.turn(angle)
    base.wait(0.2)
    return tuple(base.trace)


def _stops(
    scene: Scene, floor: Floor, camera: CameraSettings, settings: DriveSettings
) -> list[Stop]:
    """Few viewpoints from which each object is seen (greedy set cover)."""
    places = candidates(scene.plan, floor, settings)
    focal = camera.width / 2 / math.tan(math.radians(camera.horizontal_fov_deg) / 2)
    wanted = settings.view_share * camera.width * camera.height
    views: dict[int, dict[int, float]] = {i: {} for i in range(len(places))}
    for label, item in enumerate(scene.objects):
        area = max(item.size[0], item.size[1]) * item.size[2] * 0.55
        far = min(focal * math.sqrt(area / wanted), settings.far_m)
        for index, point in enumerate(places):
            distance = math.dist(point, item.centre[:2])
            if settings.near_m <= distance <= max(far, settings.near_m + 0.25):
                angle = math.atan2(item.centre[2] - camera.height_m, distance)
                angle += math.radians(camera.tilt_deg)
                if abs(angle) < math.radians(camera.vertical_fov_deg) * 0.46 and _sees(
                    floor, point, item
                ):
                    views[index][label] = distance
    left = {label for seen in views.values() for label in seen}
    chosen: list[tuple[int, set[int]]] = []
    while left and len(chosen) < settings.stops_per_room * len(scene.plan.rooms):
        best = max(views, key=lambda index: (len(left & views[index].keys()), -index))
        covered = left & views[best].keys()
        if not covered:
            break
        chosen.append((best, covered))
        left -= covered
    stops = []
    for index, covered in chosen:
        at = places[index]
        bearings = [
            math.atan2(scene.objects[i].centre[1] - at[1], scene.objects[i].centre[0] - at[0])
            for i in sorted(covered)
        ]
        stops.append(Stop(at, tuple(bearings)))
    return stops


def _sees(floor: Floor, point: Point, item: Placed) -> bool:
    """Whether nothing tall stands between a place and the near side of an object."""
    centre = item.centre[:2]
    distance = math.dist(point, centre)
    radius = min(max(item.size[0], item.size[1]) / 2 + 0.1, distance - 0.1)
    share = 1.0 - radius / distance
    near = (
        point[0] + (centre[0] - point[0]) * share,
        point[1] + (centre[1] - point[1]) * share,
    )
    front = (math.sin(item.yaw), -math.cos(item.yaw))
    ahead = ((point[0] - centre[0]) * front[0] + (point[1] - centre[1]) * front[1]) / distance
    flat = item.thing.place in ("wall", "hang", "shelf")
    return (not flat or ahead > 0.3) and floor.line_is_free(floor.clear, point, near)


def _tour(plan: Plan, floor: Floor, stops: list[Stop]) -> list[Stop]:
    """Room by room, in each the nearest next."""
    order: list[Stop] = []
    at = stops[0].at
    for room in range(len(plan.rooms)):
        here = [stop for stop in stops if plan.room_at(*stop.at) == room]
        if not order and here:
            at = min(here, key=lambda stop: stop.at).at
        while here:
            nearest = min(here, key=lambda stop: math.dist(stop.at, at))
            here.remove(nearest)
            order.append(nearest)
            at = nearest.at
    return order


def _turns(yaw: float, bearings: tuple[float, ...]) -> tuple[float, ...]:
    """Turns to make one after the other (radians) so that all bearings are passed in one sweep."""
    if not bearings:
        return ()
    angles = sorted(wrap_angle(bearing - yaw) % (2 * math.pi) for bearing in bearings)
    gaps = [after - before for before, after in pairwise([*angles, angles[0] + 2 * math.pi])]
    widest = max(range(len(gaps)), key=lambda i: gaps[i])
    sweep = 2 * math.pi - gaps[widest]
    first = wrap_angle(angles[(widest + 1) % len(angles)])
    last = wrap_angle(first + sweep)
    if abs(last) < abs(first):
        return (last, -sweep)
    return (first, sweep)


def _path(floor: Floor, start: Point, goal: Point) -> list[Point]:
    """Shortest way over free cells (A*), pulled straight."""
    source, target = _nearest_free(floor, start), _nearest_free(floor, goal)
    queue: list[tuple[float, tuple[int, int]]] = [(0.0, source)]
    came: dict[tuple[int, int], tuple[int, int]] = {}
    cost = {source: 0.0}
    while queue:
        _, cell = heapq.heappop(queue)
        if cell == target:
            break
        for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)):
            other = (cell[0] + dr, cell[1] + dc)
            if not floor.free[other]:
                continue
            price = cost[cell] + math.hypot(dr, dc)
            if price < cost.get(other, math.inf):
                cost[other] = price
                came[other] = cell
                ahead = math.hypot(other[0] - target[0], other[1] - target[1])
                heapq.heappush(queue, (price + ahead, other))
    if target not in cost:
        raise DatasetError(f"no way for the robot from {start} to {goal}")
    cells = [target]
    while cells[-1] != source:
        cells.append(came[cells[-1]])
    points = [floor.place(cell) for cell in reversed(cells)]
    straight = [points[0]]
    index = 0
    while index < len(points) - 1:
        further = len(points) - 1
        while further > index + 1 and not floor.line_is_free(
            floor.free, points[index], points[further]
        ):
            further -= 1
        straight.append(points[further])
        index = further
    return straight


def _nearest_free(floor: Floor, point: Point) -> tuple[int, int]:
    cell = floor.cell(point)
    if floor.free[cell]:
        return cell
    cells = np.argwhere(floor.free)
    nearest = cells[np.argmin(((cells - np.array(cell)) ** 2).sum(axis=1))]
    return (int(nearest[0]), int(nearest[1]))


class _Base:
    """A differential-drive base that records its poses."""

    def __init__(self, at: Point, yaw: float, settings: DriveSettings) -> None:
        self.x, self.y = at
        self.yaw = yaw
        self._settings = settings
        self._step = 1.0 / settings.pose_hz
        self._speed = 0.0
        self._rate = 0.0
        self.trace: list[TimedPose] = []

    def _advance(self, speed: float, rate: float) -> None:
        """One step with limited acceleration."""
        limit = self._settings.acceleration * self._step
        self._speed += float(np.clip(speed - self._speed, -limit, limit))
        turn_limit = self._settings.turn_acceleration * self._step
        self._rate += float(np.clip(rate - self._rate, -turn_limit, turn_limit))
        time_s = len(self.trace) * self._step
        self.trace.append(TimedPose(time_s, self.x, self.y, wrap_angle(self.yaw)))
        middle = self.yaw + self._rate * self._step / 2
        self.x += self._speed * math.cos(middle) * self._step
        self.y += self._speed * math.sin(middle) * self._step
        self.yaw += self._rate * self._step

    def wait(self, seconds: float) -> None:
        """Stand still."""
        for _ in range(round(seconds / self._step)):
            self._advance(0.0, 0.0)

    def turn(self, angle: float) -> None:
        """Turn on the spot by an angle in radians, which may be more than half a turn."""
        goal = self.yaw + angle
        for _ in range(2000):
            error = goal - self.yaw
            if abs(error) < math.radians(1.5) and abs(self._rate) < 0.1:
                return
            brake = math.sqrt(2 * 0.8 * self._settings.turn_acceleration * abs(error))
            self._advance(0.0, math.copysign(min(self._settings.turn_rate, brake), error))

    def follow(self, path: list[Point]) -> None:
        """Drive along a polyline by pure pursuit (Coulter 1992)."""
        goal = path[-1]
        legs = [np.linspace(a, b, max(2, int(math.dist(a, b) / 0.05))) for a, b in pairwise(path)]
        points = np.concatenate(legs) if legs else np.array([goal])
        reached = 0
        for _ in range(6000):
            left = math.dist((self.x, self.y), goal)
            if left < 0.08:
                return
            gaps = np.hypot(points[reached:, 0] - self.x, points[reached:, 1] - self.y)
            reached += int(np.argmin(gaps[:40]))
            ahead = points[min(reached + 6, len(points) - 1)]
            error = wrap_angle(math.atan2(ahead[1] - self.y, ahead[0] - self.x) - self.yaw)
            slow = math.sqrt(2 * 0.7 * self._settings.acceleration * left)
            speed = min(self._settings.speed, slow) * max(0.0, math.cos(error)) ** 3
            if abs(error) > 0.9:
                speed = 0.0
            rate = float(np.clip(2.2 * error, -self._settings.turn_rate, self._settings.turn_rate))
            self._advance(speed, rate)
