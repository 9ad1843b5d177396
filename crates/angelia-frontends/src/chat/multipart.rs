//! Encodes the body of a request that uploads a file (RFC 7578). Pure.

/// Returns the content type and the body. The file must not contain `boundary`.
pub(super) fn encode_form(
    boundary: &str,
    fields: &[(&str, String)],
    file: (&str, &str, &[u8]),
) -> (String, Vec<u8>) {
    let mut body = Vec::with_capacity(file.2.len() + 512);
    for (name, value) in fields {
        let part = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        );
        body.extend_from_slice(part.as_bytes());
    }
    let (name, file_name, bytes) = file;
    let file_name: String =
        file_name.chars().map(|c| if c == '"' || c.is_control() { '_' } else { c }).collect();
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{file_name}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    );
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(bytes);
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    (format!("multipart/form-data; boundary={boundary}"), body)
}
