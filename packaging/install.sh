#!/bin/sh
# Installs Angelia from files built by `cargo xtask dist`.
#
#   sh install.sh [BASE_URL]       install, or replace an older version
#   sh install.sh --uninstall      remove everything it installed
#
# BASE_URL is where SHA256SUMS and the archives are: a folder, or a file://, https:// or loopback
# http:// address. It defaults to the folder of this script. Everything goes below
# ${PREFIX:-$HOME/.local}; nothing else on the machine is changed.
set -eu
umask 022

# The public key for the signature of the checksums. `cargo xtask dist` fills it in.
public_key=''

fail() {
    printf 'install.sh: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf '  hint: %s\n' "$2" >&2
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# Prints the folder or address without a trailing slash, and refuses addresses that could be
# tampered with.
resolve_base() {
    case $1 in
    file://*) printf '%s\n' "${1#file://}" ;;
    https://* | http://127.0.0.1[:/]* | http://localhost[:/]* | 'http://[::1]'[:/]*) printf '%s\n' "${1%/}" ;;
    http://*) fail "will not download over plain http: $1" "use https, or download the files first and name their folder" ;;
    *://*) fail "cannot download from $1" "name a folder, or a file:// or https:// address" ;;
    *) printf '%s\n' "${1%/}" ;;
    esac
}

# fetch NAME: copies or downloads a file of the release into the working folder.
fetch() {
    case $base in
    http://* | https://*)
        if has curl; then
            curl -fsSL --max-redirs 5 -o "$work/$1" "$base/$1"
        elif has wget; then
            wget -q -O "$work/$1" "$base/$1"
        else
            fail "neither curl nor wget is installed" "download the files yourself and name their folder"
        fi
        ;;
    *) cp "$base/$1" "$work/$1" 2>/dev/null ;;
    esac
}

sha256() {
    if has sha256sum; then
        sha256sum "$1" | cut -d ' ' -f 1
    elif has shasum; then
        shasum -a 256 "$1" | cut -d ' ' -f 1
    else
        fail "cannot check the archive: neither sha256sum nor shasum is installed"
    fi
}

# Prints the triple of this machine's archive.
find_triple() {
    system=$(uname -s)
    machine=$(uname -m)
    source_hint="build it from a checkout: cargo install --locked --path crates/angelia"
    [ "$system" = Linux ] || fail "there is no package for $system" "$source_hint"
    case $machine in
    x86_64 | amd64) echo x86_64-unknown-linux-musl ;;
    aarch64 | arm64) echo aarch64-unknown-linux-musl ;;
    *) fail "there is no package for $machine" "$source_hint" ;;
    esac
}

# Checks the signature of the checksums, and sets `checked` to what was verified about the archive.
check_signature() {
    if [ -z "$public_key" ]; then
        checked="its SHA-256 sum; this copy of install.sh carries no key, so the signature was not checked"
    elif ! has minisign; then
        checked="its SHA-256 sum; minisign is not installed, so the signature was not checked"
    else
        fetch SHA256SUMS.minisig || fail "$base has no SHA256SUMS.minisig" "the files are incomplete, or come from a different source than this script"
        minisign -V -q -P "$public_key" -m "$work/SHA256SUMS" -x "$work/SHA256SUMS.minisig" >/dev/null ||
            fail "the signature of SHA256SUMS does not match the key in this script; nothing was installed" \
                "do not use these files; get install.sh and the archives from the same source"
        checked="its SHA-256 sum and the minisign signature"
    fi
}

# Removes the files of the installed version, as listed when it was installed.
remove_installed() {
    while IFS= read -r path; do
        rm -f "$prefix/$path"
    done <"$manifest"
    rm -f "$manifest"
    rmdir "$prefix/share/angelia" "$prefix/libexec/angelia/hermes" "$prefix/libexec/angelia" 2>/dev/null || :
}

# Moves the unpacked files below the prefix, and removes files that only the previous version had. A
# rename replaces the program even while it runs.
place_files() {
    (cd "$1" && find . \( -type f -o -type l \) -print | sed 's|^\./||' | sort) >"$work/files"
    while IFS= read -r path; do
        mkdir -p "$(dirname "$prefix/$path")"
        rm -f "$prefix/$path.new"
        cp -P "$1/$path" "$prefix/$path.new"
        mv -f "$prefix/$path.new" "$prefix/$path"
    done <"$work/files"
    if [ -f "$manifest" ]; then
        while IFS= read -r path; do
            grep -qxF "$path" "$work/files" || rm -f "$prefix/$path"
        done <"$manifest"
    fi
    mkdir -p "$(dirname "$manifest")"
    cp "$work/files" "$manifest"
}

# Prints how to start the program from here.
command_name() {
    case ":$PATH:" in
    *":$prefix/bin:"*) echo angelia ;;
    *) echo "$prefix/bin/angelia" ;;
    esac
}

[ -n "${PREFIX:-}${HOME:-}" ] || fail "neither PREFIX nor HOME is set"
prefix=${PREFIX:-$HOME/.local}
case $prefix in
/*) prefix=${prefix%/} ;;
*) prefix=$PWD/${prefix%/} ;;
esac
manifest=$prefix/share/angelia/installed-files
base=''

case ${1:-} in
--uninstall)
    [ -f "$manifest" ] || fail "Angelia was not installed into $prefix by this script" "set PREFIX to where it was installed"
    remove_installed
    echo "Removed Angelia from $prefix. Its records in ~/.angelia are still there."
    exit 0
    ;;
-h | --help)
    echo "usage: [PREFIX=DIR] sh install.sh [BASE_URL | --uninstall]"
    exit 0
    ;;
-*) fail "there is no option $1" "sh install.sh --help" ;;
?*) base=$(resolve_base "$1") ;;
*)
    here=$(dirname "$0")
    [ -f "$here/SHA256SUMS" ] || fail "there is no release next to this script" "name its folder or address: sh install.sh BASE_URL"
    base=$here
    ;;
esac

triple=$(find_triple)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

fetch SHA256SUMS || fail "cannot get SHA256SUMS from $base" "it must be a folder filled by cargo xtask dist, or its address"
check_signature
line=$(grep "  angelia-[^/]*-$triple\.tar\.gz\$" "$work/SHA256SUMS" | tail -n 1) || :
[ -n "$line" ] || fail "$base has no archive for $triple" "build one: cargo xtask dist $triple"
archive=${line#*  }
fetch "$archive" || fail "cannot get $archive from $base"
[ "$(sha256 "$work/$archive")" = "${line%% *}" ] ||
    fail "$archive does not have the sum in SHA256SUMS; nothing was installed" "the download is broken or was changed; try again"
gzip -dc "$work/$archive" | (cd "$work" && tar -xf -)
unpacked=$work/${archive%.tar.gz}

unit=$unpacked/share/systemd/user/angelia.service
bindir=$(printf '%s' "$prefix/bin" | sed 's/[&|\\]/\\&/g')
sed "s|@BINDIR@|$bindir|" "$unit" >"$unit.new" && mv "$unit.new" "$unit"
place_files "$unpacked"

echo "Installed $("$prefix/bin/angelia" --version) into $prefix."
echo "Checked $checked."
[ "$(command_name)" = angelia ] || echo "To type just angelia: export PATH=\"$prefix/bin:\$PATH\""
echo "Try it: $(command_name) run hello"
