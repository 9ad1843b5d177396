//! Neovim: a Lua module that plugins for ACP agents can load. The plugins are configured by a call
//! in the owner's own code, which a program cannot safely change.

use super::{
    client::{Client, ClientFile, Connection, Folders, quoted},
    own_file::{mark_line, with_file, without_file},
};

const NAME: &str = "neovim";
const MARK: &str = "-- angelia setup neovim";

pub(super) const CLIENT: Client = Client {
    name: NAME,
    has_key: false,
    files: |folders| {
        Ok(vec![ClientFile {
            path: path(folders),
            holds_key: false,
            with: |file, connection| with_file(file, MARK, module(connection)),
            without: |text| Ok(without_file(text, MARK)),
        }])
    },
    usage: |_| {
        "add one of these to the setup of your plugin:\n  \
         codecompanion.nvim: adapters = { acp = { angelia = require(\"angelia\").codecompanion } }\n  \
         avante.nvim: acp_providers = { angelia = require(\"angelia\").avante }"
            .to_owned()
    },
};

fn path(folders: &Folders<'_>) -> std::path::PathBuf {
    let application = folders.environment.non_empty("NVIM_APPNAME").unwrap_or("nvim".as_ref());
    folders.config().join(application).join("lua/angelia.lua")
}

fn module(connection: &Connection) -> String {
    let acp = &connection.acp;
    let arguments: Vec<String> = acp.arguments.iter().map(|argument| quoted(argument)).collect();
    let variables: Vec<String> =
        acp.env.iter().map(|(name, value)| format!("{name} = {}", quoted(value))).collect();
    let (command, arguments) = (quoted(&acp.program.to_string_lossy()), arguments.join(", "));
    let variables = variables.join(", ");
    format!(
        "-- {mark}
local command, args, env = {command}, {{ {arguments} }}, {{ {variables} }}

return {{
  codecompanion = function()
    return require(\"codecompanion.adapters\").extend(\"opencode\", {{
      name = \"angelia\",
      formatted_name = \"Angelia\",
      commands = {{ default = {{ command, (unpack or table.unpack)(args) }} }},
      env = env,
    }})
  end,
  avante = {{ command = command, args = args, env = env }},
}}
",
        mark = mark_line(NAME)
    )
}
