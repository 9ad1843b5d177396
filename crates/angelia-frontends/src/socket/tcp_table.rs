//! Reads the kernel's tables of TCP sockets, `/proc/net/tcp` and `/proc/net/tcp6`.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TcpSocket {
    pub(super) uid: u32,
    /// 0 if no process holds the socket any more.
    pub(super) inode: u64,
}

/// Returns the socket with these addresses, as its own process sees them. Fails if the system does
/// not show its sockets.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has the tables"))]
pub(super) fn find_socket(own: SocketAddr, other: SocketAddr) -> io::Result<Option<TcpSocket>> {
    let rows = fs::read_to_string("/proc/net/tcp")?;
    if let Some(found) = find_row(&rows, own, other) {
        return Ok(Some(found));
    }
    // Absent if IPv6 is off. An IPv6 socket can have IPv4 addresses.
    let rows = fs::read_to_string("/proc/net/tcp6").unwrap_or_default();
    Ok(find_row(&rows, own, other))
}

fn find_row(rows: &str, own: SocketAddr, other: SocketAddr) -> Option<TcpSocket> {
    let same = |one: SocketAddr, another: SocketAddr| {
        one.port() == another.port() && one.ip().to_canonical() == another.ip().to_canonical()
    };
    rows.lines().skip(1).find_map(|row| {
        let mut fields = row.split_ascii_whitespace().skip(1);
        let (local, remote) = (fields.next()?, fields.next()?);
        if !same(parse_address(local)?, own) || !same(parse_address(remote)?, other) {
            return None;
        }
        // The state, queues, timer and retransmissions come before the user.
        let uid = fields.nth(4)?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        Some(TcpSocket { uid, inode })
    })
}

/// Parses `0100007F:1F90`: four-byte words in native byte order, then the port.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = [0; 16];
    let length = address.len() / 2;
    let words = bytes.get_mut(..length)?.chunks_exact_mut(4);
    for (index, word) in words.enumerate() {
        let digits = address.get(index * 8..index * 8 + 8)?;
        word.copy_from_slice(&u32::from_str_radix(digits, 16).ok()?.to_ne_bytes());
    }
    let ip: IpAddr = match length {
        4 => Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into(),
        16 => Ipv6Addr::from(bytes).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn a_row_is_found_by_both_addresses() {
        let rows = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:1118 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 111 1 0 100 0 0 10 0\n   \
             1: 0100007F:C350 0100007F:1118 01 00000000:00000000 00:00000000 00000000  1000        0 222 1 0 20 4 30 10 -1\n   \
             2: 0000000000000000FFFF00000100007F:C351 0000000000000000FFFF00000100007F:1118 01 00000000:00000000 00:00000000 00000000  1001        0 333 1 0 20 4 30 10 -1\n";
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let found = |port| find_row(rows, at(port), at(0x1118));
        assert_eq!(found(0xC350), Some(TcpSocket { uid: 1000, inode: 222 }));
        assert_eq!(found(0xC351), Some(TcpSocket { uid: 1001, inode: 333 }));
        assert_eq!(found(0xC352), None);
        assert_eq!(find_row(rows, at(0x1118), at(0xC350)), None);
    }
}
