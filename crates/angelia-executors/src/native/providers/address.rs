//! Checks the address of a provider, and distinguishes local addresses from others.

use std::net::IpAddr;

/// Endings of names that only a private network resolves.
const PRIVATE_ENDINGS: [&str; 5] = [".localhost", ".local", ".lan", ".internal", ".home.arpa"];

/// Why an address cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("is not an http or https address, such as https://api.example.com/v1")]
    NotHttp,
    #[error(
        "has a user, a query or a fragment; a key belongs in `keys`, everything else in `headers`"
    )]
    Surplus,
    #[error(
        "would send keys and prompts over the network unencrypted; use https (http only for this \
         machine and its own network)"
    )]
    Unencrypted,
}

/// Checks the address of a provider.
pub fn check_address(address: &str) -> Result<(), AddressError> {
    let (scheme, rest) = address.split_once("://").ok_or(AddressError::NotHttp)?;
    if !["http", "https"].contains(&scheme) {
        return Err(AddressError::NotHttp);
    }
    if rest.contains(['@', '?', '#']) {
        return Err(AddressError::Surplus);
    }
    let host = host_of(address);
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    let is_path = |c: char| c.is_ascii_graphic() && c != '\\';
    let has_port = rest.split('/').next().and_then(port_of).is_none_or(|port| port.is_ok());
    if host.is_empty() || !has_port || !host.chars().all(is_host) || !rest.chars().all(is_path) {
        return Err(AddressError::NotHttp);
    }
    if scheme == "http" && !is_local(host) {
        return Err(AddressError::Unencrypted);
    }
    Ok(())
}

/// Returns the host of an address, without brackets and port.
pub(super) fn host_of(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

fn port_of(authority: &str) -> Option<Result<u16, std::num::ParseIntError>> {
    let after_v6 = authority.rsplit_once(']').map_or(authority, |(_, after)| after);
    after_v6.rsplit_once(':').map(|(_, port)| port.parse())
}

/// Returns whether an address is on this machine or in a private network.
pub(in crate::native) fn is_local_address(address: &str) -> bool {
    is_local(host_of(address))
}

/// Returns whether a host is this machine or in a private network.
pub(super) fn is_local(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_private(),
        Ok(IpAddr::V6(address)) => address.is_loopback() || address.is_unique_local(),
        Err(_) => {
            let name = host.to_ascii_lowercase();
            // A name without a dot belongs to the local network.
            !name.contains('.') || PRIVATE_ENDINGS.iter().any(|ending| name.ends_with(ending))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found() {
        for (address, host, local) in [
            ("https://api.example.com/v1", "api.example.com", false),
            ("http://127.0.0.1:11434/v1", "127.0.0.1", true),
            ("http://[::1]:8080", "::1", true),
            ("http://[fd00::7]:8080/v1", "fd00::7", true),
            ("http://localhost/v1", "localhost", true),
            ("http://gpu-box:8000/v1", "gpu-box", true),
            ("http://Models.Home.ARPA/v1", "Models.Home.ARPA", true),
            ("http://192.168.1.5:1234/v1", "192.168.1.5", true),
            ("https://8.8.8.8/v1", "8.8.8.8", false),
            ("https://local.example.com", "local.example.com", false),
        ] {
            assert_eq!((host_of(address), is_local(host_of(address))), (host, local), "{address}");
            assert_eq!(check_address(address), Ok(()), "{address}");
        }
    }

    #[test]
    fn what_is_no_address_or_gives_something_away_is_refused() {
        use AddressError::{NotHttp, Surplus, Unencrypted};
        for (address, error) in [
            ("api.example.com/v1", NotHttp),
            ("ftp://api.example.com", NotHttp),
            ("https://", NotHttp),
            ("https:///v1", NotHttp),
            ("https://a b.example.com", NotHttp),
            ("https://example.com:port/v1", NotHttp),
            ("https://example.com:99999/v1", NotHttp),
            ("https://example.com/v1 ", NotHttp),
            ("http://localhost\\@example.com/v1", Surplus),
            ("http://localhost\\.example.com/v1", NotHttp),
            ("https://user@example.com/v1", Surplus),
            ("http://localhost:80@example.com/v1", Surplus),
            ("https://example.com/v1?key=1", Surplus),
            ("http://api.example.com/v1", Unencrypted),
            ("http://8.8.8.8/v1", Unencrypted),
        ] {
            assert_eq!(check_address(address), Err(error), "{address}");
        }
    }
}
