//! The names of MCP tools: `mcp__SERVER__TOOL`, as in permission patterns. They are unique, and
//! every model API accepts their characters and their length. Pure.

use std::{collections::HashSet, sync::Arc};

use sha2::{Digest as _, Sha256};

/// The maximum length of a tool's name in the model APIs.
pub const MAX_NAME_BYTES: usize = 64;

/// The maximum length of the server's part of a name.
const MAX_SERVER_BYTES: usize = 40;

/// The number of hash digits that make a name unique.
const HASH_DIGITS: usize = 6;

/// Assigns names to servers and tools. The same servers and tools in the same order get the same
/// names.
#[derive(Debug, Default)]
pub struct ToolNames {
    servers: HashSet<String>,
    tools: HashSet<String>,
}

/// A server's part of the names of its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPart(String);

impl ToolNames {
    /// Names a server of the owner. The name stays as it is, because the owner's patterns refer to
    /// it.
    pub fn owners_server(&mut self, name: &str) -> ServerPart {
        self.server(&replace_others(name), name)
    }

    /// Names a server that a project has named. A separator inside the name or at its ends would
    /// make its tools look like those of another server.
    pub fn projects_server(&mut self, name: &str) -> ServerPart {
        let words: Vec<_> = replace_others(name)
            .split('_')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        let wanted = if words.is_empty() { "server".to_owned() } else { words.join("_") };
        self.server(&wanted, name)
    }

    fn server(&mut self, wanted: &str, origin: &str) -> ServerPart {
        let name = fit(wanted, MAX_SERVER_BYTES, origin, &self.servers);
        self.servers.insert(name.clone());
        ServerPart(name)
    }

    /// Names a tool of a server.
    pub fn tool(&mut self, server: &ServerPart, tool: &str) -> Arc<str> {
        let wanted = format!("mcp__{}__{}", server.0, replace_others(tool));
        let name = fit(&wanted, MAX_NAME_BYTES, tool, &self.tools);
        self.tools.insert(name.clone());
        name.into()
    }
}

/// Replaces characters that model APIs do not accept in a name.
fn replace_others(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if fits(c) { c } else { '_' }).collect()
}

/// Returns the wanted name, or one with a hash of `origin` if the wanted name is too long or taken.
fn fit(wanted: &str, limit: usize, origin: &str, taken: &HashSet<String>) -> String {
    if wanted.len() <= limit && !taken.contains(wanted) {
        return wanted.to_owned();
    }
    let head = &wanted[..wanted.len().min(limit - HASH_DIGITS - 1)];
    // Two underscores in a row would end the name of the server.
    let separator = if head.ends_with('_') { "" } else { "_" };
    let mut round = 0_u32;
    loop {
        let hash = format!("{:x}", Sha256::digest(format!("{round}\0{origin}")));
        let name = format!("{head}{separator}{}", &hash[..HASH_DIGITS]);
        if !taken.contains(&name) {
            return name;
        }
        round += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_names_are_kept() {
        let mut names = ToolNames::default();
        let docs = names.owners_server("docs");
        assert_eq!(&*names.tool(&docs, "search"), "mcp__docs__search");
        assert_eq!(&*names.tool(&docs, "read-file"), "mcp__docs__read-file");
        let odd = names.owners_server("my__docs");
        assert_eq!(&*names.tool(&odd, "search"), "mcp__my__docs__search");
    }

    #[test]
    fn a_project_cannot_take_the_names_of_another_server() {
        let mut names = ToolNames::default();
        let own = names.owners_server("angelia");
        names.tool(&own, "delegate");
        for name in ["angelia", "angelia__x", "angelia_", "_angelia", "ange__lia", "__", "a/b"] {
            let server = names.projects_server(name);
            for tool in ["delegate", "_x", "__"] {
                let name = names.tool(&server, tool);
                assert!(!name.starts_with("mcp__angelia__"), "{name}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_name_is_short_plain_and_unique(
            tools in proptest::collection::vec((".{0,50}", ".{0,80}", any::<bool>()), 1..30),
        ) {
            let mut names = ToolNames::default();
            let mut all = HashSet::new();
            for (server, tool, is_owners) in &tools {
                let server = if *is_owners {
                    names.owners_server(server)
                } else {
                    names.projects_server(server)
                };
                // A careless server may list the same tool twice.
                for _ in 0..2 {
                    let name = names.tool(&server, tool);
                    prop_assert!(name.len() <= MAX_NAME_BYTES, "{name}");
                    prop_assert!(name.starts_with(&format!("mcp__{}__", server.0)), "{name}");
                    prop_assert_eq!(&replace_others(&name), &*name);
                    prop_assert!(all.insert(name));
                }
            }
        }
    }
}
