//! The dashboard: the files of the page, and the headers under which a browser runs them. The files are
//! public, because they reveal nothing on their own: all data comes from `/api` with a token
//! (`docs/design/0041-dashboard.md`).

use std::{borrow::Cow, sync::Arc};

use axum::{
    Router,
    extract::{MatchedPath, Path, Request},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use sha2::{Digest as _, Sha256};

use super::{ApiState, error};

/// The path of all files except the page itself.
pub(super) const FILES_PATH: &str = "/ui/{*path}";

/// Scripts and styles come from here and nowhere else, and text never becomes markup or code. An agent
/// that writes hostile Markdown can neither run anything nor send anything away.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data:; font-src 'none'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const SECURITY_HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // A browser checks every time whether its copy is current.
    (header::CACHE_CONTROL, "no-cache"),
];

struct PageFile {
    path: &'static str,
    bytes: &'static [u8],
}

macro_rules! page_files {
    ($($path:literal,)*) => {
        &[$(PageFile { path: $path, bytes: include_bytes!(concat!("../../ui/", $path)) },)*]
    };
}

static FILES: &[PageFile] = page_files![
    "base.css",
    "icon.svg",
    "index.html",
    "pages.css",
    "parts.css",
    "src/api.js",
    "src/diff.js",
    "src/feed.js",
    "src/format.js",
    "src/keyboard.js",
    "src/main.js",
    "src/markdown.js",
    "src/notify.js",
    "src/pages/agents.js",
    "src/pages/bus.js",
    "src/pages/channels.js",
    "src/pages/costs.js",
    "src/pages/inbox.js",
    "src/pages/live.js",
    "src/pages/login.js",
    "src/pages/schedules.js",
    "src/pages/session.js",
    "src/pages/sessions.js",
    "src/pages/settings.js",
    "src/parts/card.js",
    "src/parts/changes.js",
    "src/parts/chart.js",
    "src/parts/composer.js",
    "src/parts/diff.js",
    "src/parts/events.js",
    "src/parts/feedback.js",
    "src/parts/icons.js",
    "src/parts/list.js",
    "src/parts/markdown.js",
    "src/parts/new_session.js",
    "src/parts/status.js",
    "src/parts/transcript.js",
    "src/parts/turn_stream.js",
    "src/route.js",
    "src/settings.js",
    "src/sse.js",
    "src/store.js",
    "src/turn_view.js",
    "src/view.js",
    "src/words.js",
    "src/words_en.js",
    "src/words_zh.js",
    "vendor/htm.js",
    "vendor/preact.js",
    "vendor/signals.js",
    "vendor/uplot.css",
    "vendor/uplot.js",
];

impl PageFile {
    /// Reads the file itself in a debug build, so that reloading the page shows an edit.
    #[cfg(debug_assertions)]
    fn read(&self) -> Cow<'static, [u8]> {
        let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/ui"));
        std::fs::read(folder.join(self.path)).map_or(Cow::Borrowed(self.bytes), Cow::Owned)
    }

    #[cfg(not(debug_assertions))]
    fn read(&self) -> Cow<'static, [u8]> {
        Cow::Borrowed(self.bytes)
    }
}

/// Returns a hash that identifies a version of a file.
fn etag(bytes: &[u8]) -> Option<HeaderValue> {
    let hash = hex::encode(&Sha256::digest(bytes)[..16]);
    HeaderValue::from_str(&format!("\"{hash}\"")).ok()
}

pub(super) fn routes() -> Router<Arc<ApiState>> {
    Router::new().route("/", get(index)).route(FILES_PATH, get(file))
}

async fn index(headers: HeaderMap) -> Response {
    serve("index.html", &headers)
}

async fn file(Path(path): Path<String>, request: Request) -> Response {
    let is_known = FILES.iter().any(|file| file.path == path);
    if is_known { serve(&path, request.headers()) } else { error::no_such_path(&request) }
}

/// Answers an unknown path. A person who typed an address gets the page, which shows the way; a
/// program gets an error.
pub(super) async fn no_such_path(request: Request) -> Response {
    if is_navigation(&request) {
        return serve("index.html", request.headers());
    }
    error::no_such_path(&request)
}

/// Returns whether a request asks for the page or one of its files.
pub(super) fn is_public(request: &Request) -> bool {
    match request.extensions().get::<MatchedPath>() {
        Some(path) => path.as_str() == "/" || path.as_str() == FILES_PATH,
        None => is_navigation(request),
    }
}

fn is_navigation(request: &Request) -> bool {
    let accepted = request.headers().get(header::ACCEPT).and_then(|types| types.to_str().ok());
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let path = request.uri().path();
    let is_api = path.starts_with("/api") || path.starts_with("/v1");
    is_read && !is_api && accepted.is_some_and(|types| types.contains("text/html"))
}

fn serve(path: &str, request: &HeaderMap) -> Response {
    let Some(file) = FILES.iter().find(|file| file.path == path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let bytes = file.read();
    let etag = etag(&bytes);
    let mut known = request.get_all(header::IF_NONE_MATCH).iter();
    let mut response = if known.any(|one| Some(one) == etag.as_ref()) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, content_type(path))], bytes).into_response()
    };
    let headers = response.headers_mut();
    if let Some(etag) = etag {
        headers.insert(header::ETAG, etag);
    }
    for (name, value) in SECURITY_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

/// Keeps the responses of `/api` out of every cache.
pub(super) async fn forbid_caching(mut response: Response) -> Response {
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(no_store);
    response
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    fn collect(folder: &Path, below: &str, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{below}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                collect(&entry.path(), &format!("{name}/"), found);
            } else if content_type(&name) != "application/octet-stream" {
                found.insert(name);
            }
        }
    }

    #[test]
    fn every_file_of_the_page_is_served() {
        let mut found = BTreeSet::new();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
        collect(&folder, "", &mut found);
        let served: BTreeSet<String> = FILES.iter().map(|file| file.path.to_owned()).collect();
        assert_eq!(served, found);
    }

    #[test]
    fn every_file_has_its_type_and_a_version() {
        for file in FILES {
            let answer = serve(file.path, &HeaderMap::new());
            assert_eq!(answer.status(), StatusCode::OK, "{}", file.path);
            let content_type = answer.headers()[header::CONTENT_TYPE].to_str().unwrap();
            assert_ne!(content_type, "application/octet-stream", "{}", file.path);
            assert_eq!(answer.headers()[header::CONTENT_SECURITY_POLICY], CONTENT_SECURITY_POLICY);
            let known = (header::IF_NONE_MATCH, answer.headers()[header::ETAG].clone());
            let again = serve(file.path, &HeaderMap::from_iter([known]));
            assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{}", file.path);
        }
    }

    #[test]
    fn foreign_files_are_as_they_were_published() {
        let readme = include_str!("../../ui/vendor/README.md");
        for file in FILES.iter().filter(|file| file.path.starts_with("vendor/")) {
            let name = file.path.trim_start_matches("vendor/");
            let row = readme.lines().find(|line| line.starts_with(&format!("| {name} |")));
            let hash = hex::encode(Sha256::digest(file.bytes));
            assert!(row.is_some_and(|row| row.contains(&hash)), "{name}: {hash}");
        }
    }
}
