//! The protobuf encoding of the WebSocket, as the platform writes and reads it.

/// A frame: the numbers of fields 3 and 4, the headers, and the payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WireFrame {
    pub service: u64,
    pub method: u64,
    pub headers: Vec<(String, String)>,
    pub payload: Vec<u8>,
}

impl WireFrame {
    pub fn header(&self, key: &str) -> &str {
        let found = self.headers.iter().find(|(name, _)| name == key);
        found.map_or("", |(_, value)| value.as_str())
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0x08, 1, 0x10, 1, 0x18];
        push_number(&mut bytes, self.service);
        bytes.push(0x20);
        push_number(&mut bytes, self.method);
        for (key, value) in &self.headers {
            let mut header = Vec::new();
            push_bytes(&mut header, 0x0a, key.as_bytes());
            push_bytes(&mut header, 0x12, value.as_bytes());
            push_bytes(&mut bytes, 0x2a, &header);
        }
        push_bytes(&mut bytes, 0x42, &self.payload);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut frame = Self::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let key = take_number(&mut rest)?;
            let is_text = key & 7 == 2;
            let number = take_number(&mut rest)?;
            let mut content = &[][..];
            if is_text {
                (content, rest) = rest.split_at_checked(usize::try_from(number).ok()?)?;
            }
            match key >> 3 {
                3 => frame.service = number,
                4 => frame.method = number,
                5 => frame.headers.push(read_header(content)?),
                8 => frame.payload = content.to_vec(),
                _ => {}
            }
        }
        Some(frame)
    }
}

fn read_header(mut bytes: &[u8]) -> Option<(String, String)> {
    let mut texts = Vec::new();
    while !bytes.is_empty() {
        let _key = take_number(&mut bytes)?;
        let length = usize::try_from(take_number(&mut bytes)?).ok()?;
        let (content, rest) = bytes.split_at_checked(length)?;
        texts.push(String::from_utf8_lossy(content).into_owned());
        bytes = rest;
    }
    let mut texts = texts.into_iter();
    Some((texts.next()?, texts.next()?))
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if *first < 0x80 {
            return Some(number);
        }
    }
    None
}

fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f).to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn push_bytes(bytes: &mut Vec<u8>, key: u8, content: &[u8]) {
    bytes.push(key);
    push_number(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}
