//! `Open WebUI`: a file with its variables, for `docker run --env-file` or a shell.

use super::{
    client::{Client, ClientFile, Connection},
    own_file::{mark_line, with_file, without_file},
};

const NAME: &str = "open-webui";
const MARK: &str = "# angelia setup open-webui";
const FILE: &str = "open-webui.env";

pub(super) const CLIENT: Client = Client {
    name: NAME,
    has_key: true,
    files: |folders| {
        Ok(vec![ClientFile {
            path: folders.clients.join(FILE),
            holds_key: true,
            with: |file, connection| with_file(file, MARK, variables(connection)),
            without: |text| Ok(without_file(text, MARK)),
        }])
    },
    usage: |folders| {
        let file = folders.clients.join(FILE);
        let file = file.display();
        format!(
            "docker run --network=host --env-file {file} -v open-webui:/app/backend/data \
             ghcr.io/open-webui/open-webui:main\nset -a; . {file}; set +a; open-webui serve"
        )
    },
};

/// Returns the lines of the file. Nothing is quoted, because Docker takes quotes literally. The
/// headers about the user make every chat a separate conversation.
fn variables(connection: &Connection) -> String {
    format!(
        "# {}\nOPENAI_API_BASE_URL={}\nOPENAI_API_KEY={}\nENABLE_FORWARD_USER_INFO_HEADERS=true\n",
        mark_line(NAME),
        connection.v1_url(),
        connection.key
    )
}
