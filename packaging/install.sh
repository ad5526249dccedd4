#!/bin/sh
# Installs the program rondo without a compiler: downloads it, compares its SHA-256 sum, and copies it.
#
#   sh install.sh                          into ~/.local/bin
#   RONDO_PREFIX=/usr/local sh install.sh  into /usr/local/bin
#
# RONDO_VERSION    a version such as 0.1.0; the newest without it
# RONDO_BASE_URL   where the archives and SHA256SUMS are
# RONDO_PREFIX     the folder above bin
set -eu

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

main() {
    releases=https://github.com/rondo-server/rondo/releases
    if [ -n "${RONDO_BASE_URL:-}" ]; then
        base=${RONDO_BASE_URL%/}
    elif [ -n "${RONDO_VERSION:-}" ]; then
        base=$releases/download/v${RONDO_VERSION#v}
    else
        base=$releases/latest/download
    fi
    prefix=${RONDO_PREFIX:-${HOME:?set HOME or RONDO_PREFIX}/.local}

    [ "$(uname -s)" = Linux ] || fail "there is a program for Linux only; build it with cargo, see README.md"
    case $(uname -m) in
        x86_64 | amd64) name=rondo-x86_64-linux ;;
        aarch64 | arm64) name=rondo-aarch64-linux ;;
        *) fail "there is no program for $(uname -m); build it with cargo, see README.md" ;;
    esac

    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 1' HUP INT TERM
    echo "downloading $base/$name.tar.gz"
    download "$base/$name.tar.gz" "$folder/$name.tar.gz"
    download "$base/SHA256SUMS" "$folder/SHA256SUMS"
    verify "$folder" "$name.tar.gz"
    tar -xzf "$folder/$name.tar.gz" -C "$folder"
    mkdir -p "$prefix/bin" || fail "cannot write to $prefix; choose another folder with RONDO_PREFIX"
    [ ! -d "$prefix/bin/rondo" ] || fail "$prefix/bin/rondo is a folder; remove it, or choose another RONDO_PREFIX"
    # A running server keeps its old file: the new one takes the name in one step, if it runs on this machine.
    new=$prefix/bin/.rondo.new
    cp "$folder/$name/rondo" "$new" || fail "cannot write to $prefix/bin"
    chmod 755 "$new"
    version=$("$new" --version) || {
        rm -f "$new"
        fail "the program does not run on this machine; nothing was installed"
    }
    mv -f "$new" "$prefix/bin/rondo"

    echo "installed $prefix/bin/rondo: $version"
    case ":$PATH:" in
        *":$prefix/bin:"*) ;;
        *) echo "$prefix/bin is not in PATH; add it: export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
    echo "next: rondo serve"
}

download() {
    if command -v curl >/dev/null; then
        curl -fsSL --retry 2 -o "$2" "$1" || fail "cannot download $1"
    elif command -v wget >/dev/null; then
        wget -q -O "$2" "$1" || fail "cannot download $1"
    else
        fail "there is neither curl nor wget; install one of them"
    fi
}

# The sum of the file must be the sum in SHA256SUMS.
verify() {
    wanted=$(awk -v name="$2" '$2 == name { print $1 }' "$1/SHA256SUMS")
    [ -n "$wanted" ] || fail "SHA256SUMS does not name $2"
    if command -v sha256sum >/dev/null; then
        sum=$(sha256sum "$1/$2" | awk '{ print $1 }')
    elif command -v shasum >/dev/null; then
        sum=$(shasum -a 256 "$1/$2" | awk '{ print $1 }')
    else
        fail "there is neither sha256sum nor shasum; install one of them"
    fi
    [ "$sum" = "$wanted" ] || fail "the sum of $2 is $sum, but SHA256SUMS says $wanted; nothing was installed"
}

# The last line: a download that was cut runs nothing.
main
