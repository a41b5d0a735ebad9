# Source this in bash to use the built package in a shell:  . ./env.bash
# It brings the virtual environment, the built messages, and settings that keep ROS 2 traffic on
# this machine and let whole pictures through. On a robot, source your workspace instead.

_semflip_root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
if [ ! -f "$_semflip_root/install/setup.bash" ]; then
  echo "semflip is not built yet: run 'make build' in $_semflip_root first" >&2
  unset _semflip_root
  return 1 2>/dev/null || exit 1
fi

. "$_semflip_root/.venv/bin/activate"
if [ -z "${ROS_DISTRO:-}" ]; then
  export AMENT_PREFIX_PATH="$_semflip_root/.venv" CMAKE_PREFIX_PATH="$_semflip_root/.venv"
fi
. "$_semflip_root/install/setup.bash"
export PATH="$_semflip_root/install/semflip/lib/semflip:$PATH"

# Jazzy and older read the first name; newer ones warn about it.
case "${ROS_DISTRO:-}" in
  humble | iron | jazzy)
    export FASTRTPS_DEFAULT_PROFILES_FILE="${FASTRTPS_DEFAULT_PROFILES_FILE:-$_semflip_root/config/dds_loopback.xml}" ;;
  *)
    export FASTDDS_DEFAULT_PROFILES_FILE="${FASTDDS_DEFAULT_PROFILES_FILE:-$_semflip_root/config/dds_loopback.xml}" ;;
esac
export ROS_AUTOMATIC_DISCOVERY_RANGE="${ROS_AUTOMATIC_DISCOVERY_RANGE:-LOCALHOST}"
# Nothing is fetched from a model hub at run time.
export HF_HUB_OFFLINE="${HF_HUB_OFFLINE:-1}" TRANSFORMERS_OFFLINE="${TRANSFORMERS_OFFLINE:-1}"
unset _semflip_root
