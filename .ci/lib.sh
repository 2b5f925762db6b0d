# shellcheck shell=bash
# Shared by ./test and .ci/run: fetches protoc and the programs of the servers if the machine lacks them.
# Source it in the top folder of the repository.

say() { printf '\n==> %s\n' "$*" >&2; }
note() { printf '    %s\n' "$*" >&2; }
die() { printf '\nerror: %s\n' "$*" >&2; exit 1; }

command -v cargo >/dev/null || die "cargo is not on the path: install Rust first (https://rustup.rs)"
target=$(cargo metadata --format-version 1 --no-deps 2>/dev/null | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
[[ -n $target ]] || die "cargo metadata does not report the target folder"

# The folder for packages that are missing and cannot be installed without root.
unpacked=$target/servers

use_unpacked() {
  if [[ -d $unpacked/root ]]; then
    export LATCHWORK_SERVER_DIR=$unpacked/root
    case :$PATH: in *":$unpacked/bin:"*) ;; *) PATH=$unpacked/bin:$PATH ;; esac
    if [[ -x $unpacked/bin/protoc && -z ${PROTOC:-} ]]; then
      export PROTOC=$unpacked/bin/protoc PROTOC_INCLUDE=$unpacked/root/usr/include
    fi
  fi
}

# Compiles a file that imports a well-known file, as etcd's client does.
have_protoc() {
  local trial found=1
  trial=$(mktemp -d)
  printf 'syntax = "proto3";\nimport "google/protobuf/descriptor.proto";\n' >"$trial/trial.proto"
  "${PROTOC:-protoc}" ${PROTOC_INCLUDE:+"-I$PROTOC_INCLUDE"} "-I$trial" --descriptor_set_out=/dev/null trial.proto \
    >/dev/null 2>&1 && found=0
  rm -rf "$trial"
  return $found
}

# protoc from the registry of crates, for a machine without one. The build script of etcd's client finds it only by these variables.
use_vendored_protoc() {
  local said
  note "protoc is missing: using the one in the crate protoc-bin-vendored"
  said=$(cargo run --quiet --locked --manifest-path .ci/protoc/Cargo.toml --target-dir "$target/protoc") || return 1
  PROTOC=$(sed -n 's/^PROTOC=//p' <<<"$said") PROTOC_INCLUDE=$(sed -n 's/^PROTOC_INCLUDE=//p' <<<"$said")
  export PROTOC PROTOC_INCLUDE
  have_protoc && return 0
  unset PROTOC PROTOC_INCLUDE
  return 1
}

# Whether the machine has the program of a kind of server. The same places as conformance/servers/src/locate.rs.
have_program() {
  case $1 in
    redis) command -v redis-server || command -v valkey-server || [[ -e $unpacked/root/usr/bin/redis-server ]] ;;
    etcd) { command -v etcd || [[ -e $unpacked/root/usr/bin/etcd ]]; } && command -v etcdctl ;;
    zookeeper)
      { [[ -e /usr/share/java/zookeeper.jar || -e $unpacked/root/usr/share/java/zookeeper.jar ]] ||
        [[ -n ${ZOOKEEPER_HOME:-} ]] || command -v zkServer.sh || command -v zkServer; } &&
        { command -v java || [[ -x ${JAVA_HOME:-/nowhere}/bin/java ]]; }
      ;;
    prometheus) { command -v prometheus || [[ -x $unpacked/root/usr/bin/prometheus ]]; } && { command -v promtool || [[ -x $unpacked/root/usr/bin/promtool ]]; } ;;
    curator) [[ -e /usr/share/java/curator-recipes.jar || -e $unpacked/root/usr/share/java/curator-recipes.jar ]] ;;
  esac >/dev/null
}

# The Debian and Ubuntu packages of each. The library package of ZooKeeper is enough to start it, and contains no service.
packages_of() {
  case $1 in
    redis) echo redis-server ;;
    etcd) echo etcd-server etcd-client ;;
    zookeeper) echo libzookeeper-java default-jre-headless ;;
    curator) echo libcurator-recipes-java default-jre-headless ;;
    protoc) echo protobuf-compiler libprotobuf-dev ;;
    prometheus) echo prometheus ;;
  esac
}

# get_missing NAME…: gets the missing ones of protoc, redis, zookeeper, curator, etcd and prometheus, and prints how. Fails if it cannot.
get_missing() {
  local name packages=() missing=()
  use_unpacked
  for name in "$@"; do
    if [[ $name == protoc ]]; then
      if have_protoc || use_vendored_protoc; then continue; fi
    elif have_program "$name"; then
      continue
    fi
    missing+=("$name")
    # shellcheck disable=SC2207  # names of packages contain no spaces
    packages+=($(packages_of "$name"))
  done
  ((${#missing[@]})) || return 0
  if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    note "missing: ${missing[*]}. This machine has no apt-get: install them in another way"
    return 1
  fi
  if [[ $(id -u) == 0 ]]; then
    say "missing: ${missing[*]}; installing ${packages[*]}"
    install_packages "${packages[@]}" || return 1
  else
    say "missing: ${missing[*]}; unpacking ${packages[*]} into $unpacked (no root, so nothing is installed)"
    unpack_packages "${packages[@]}" || return 1
    use_unpacked
  fi
  for name in "${missing[@]}"; do
    if [[ $name == protoc ]]; then have_protoc; else have_program "$name"; fi || {
      note "$name is still missing, although its packages (${packages[*]}) are installed"
      return 1
    }
  done
}

# The services of these packages that run now or will run at the next start of the machine.
services() {
  local service
  [[ -d /run/systemd/system ]] || return 0
  for service in redis-server etcd prometheus; do
    if systemctl is-active --quiet "$service" || systemctl is-enabled --quiet "$service" 2>/dev/null; then echo "$service"; fi
  done
}

# Installs packages without starting their services: a temporary policy forbids it, and the previous policy is restored.
# shellcheck disable=SC2317  # the trap calls it
install_packages() (
  policy=/usr/sbin/policy-rc.d
  saved=
  log=
  restore() {
    rm -f "$policy" "$log"
    if [[ -n $saved ]]; then mv "$saved" "$policy"; fi
  }
  if [[ -e $policy || -L $policy ]]; then
    saved=$policy.before-latchwork
    mv "$policy" "$saved" || exit 1
  fi
  trap restore EXIT
  trap 'exit 130' INT TERM
  printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" || exit 1
  before=$(services | paste -sd" " -)
  log=$(mktemp)
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq -o DPkg::Lock::Timeout=300 update </dev/null >&2 || note "apt-get update failed; trying with the existing lists"
  apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 --no-install-recommends install "$@" </dev/null >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    exit 1
  }
  for service in $(services); do
    case " $before " in
      *" $service "*) ;;
      *) note "the installation has started the service $service: stopping and disabling it" && systemctl disable --now "$service" >&2 ;;
    esac
  done
)

# Fetches packages with their missing dependencies, and unpacks them below the target folder. The lists of packages are also stored
# there, since only root can update the lists of the machine.
unpack_packages() {
  local apt=$unpacked/apt log=$unpacked/log package link to
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$unpacked/root" "$unpacked/bin"
  local options=(-qq -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o Debug::NoLocking=true
    -o "APT::Sandbox::User=$(id -un)" -o APT::Install-Recommends=false)
  if ! apt-get "${options[@]}" update >"$log" 2>&1 </dev/null ||
    ! apt-get "${options[@]}" -y --download-only install "$@" >>"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    return 1
  fi
  for package in "$apt"/cache/archives/*.deb; do
    dpkg -x "$package" "$unpacked/root" || return 1
  done
  rm -rf "$apt"
  # Absolute links point out of the tree: change them if their target exists in the tree.
  find "$unpacked/root" -type l -lname '/*' | while IFS= read -r link; do
    to=$unpacked/root$(readlink "$link")
    if [[ -e $to || -L $to ]]; then ln -sfn "$to" "$link"; fi
  done
  wrap_programs
}

# Scripts for the programs of the tree, with the path of its libraries.
wrap_programs() {
  local libraries program
  libraries=$(find "$unpacked/root/usr/lib" "$unpacked/root/lib" -maxdepth 1 -name '*-linux-gnu*' -type d 2>/dev/null | paste -sd: -)
  for program in "$unpacked"/root/usr/bin/{protoc,redis-server,redis-cli,etcd,etcdctl} "$unpacked"/root/usr/lib/jvm/*/bin/java; do
    [[ -e $program ]] || continue
    # shellcheck disable=SC2016  # the script expands them
    printf '#!/bin/sh\nLD_LIBRARY_PATH="%s${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "%s" "$@"\n' \
      "$libraries" "$program" >"$unpacked/bin/${program##*/}"
    chmod 755 "$unpacked/bin/${program##*/}"
  done
}
