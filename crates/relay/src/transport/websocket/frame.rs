//! One RFC 6455 frame as a server sees it: its header in and out, its mask. No I/O.

use super::Violation;

/// The longest payload of a control frame.
pub(super) const CONTROL_MAX: usize = 125;

/// The longest header that the server writes.
pub(super) const HEADER_MAX: usize = 10;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    fn from_bits(bits: u8) -> Result<Self, Violation> {
        Ok(match bits {
            0x0 => Self::Continuation,
            0x1 => Self::Text,
            0x2 => Self::Binary,
            0x8 => Self::Close,
            0x9 => Self::Ping,
            0xA => Self::Pong,
            _ => return Err(Violation::Protocol("a reserved opcode")),
        })
    }

    fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0x0,
            Self::Text => 0x1,
            Self::Binary => 0x2,
            Self::Close => 0x8,
            Self::Ping => 0x9,
            Self::Pong => 0xA,
        }
    }

    pub(super) fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// What stands before a client's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// The last frame of its message.
    pub(super) fin: bool,
    /// RSV1: the message is deflated (RFC 7692).
    pub(super) compressed: bool,
    pub(super) opcode: Opcode,
    pub(super) mask: [u8; 4],
    /// Payload bytes.
    pub(super) len: u64,
}

impl Header {
    /// Reads a header and tells how many bytes it takes; `None` while it is incomplete.
    ///
    /// Rules that need no context are checked here: reserved bits and opcodes, masking, the shape of control
    /// frames. They are checked on the first two bytes, before anything else has come.
    pub(super) fn parse(input: &[u8]) -> Result<Option<(Self, usize)>, Violation> {
        let [first, second, rest @ ..] = input else {
            return Ok(None);
        };
        if first & 0x30 != 0 {
            return Err(Violation::Protocol("a reserved bit is set"));
        }
        let opcode = Opcode::from_bits(first & 0x0F)?;
        let (fin, compressed) = (first & 0x80 != 0, first & 0x40 != 0);
        if second & 0x80 == 0 {
            return Err(Violation::Protocol("a client's frame is not masked"));
        }
        let short = second & 0x7F;
        if opcode.is_control() && (!fin || compressed || usize::from(short) > CONTROL_MAX) {
            return Err(Violation::Protocol(
                "a control frame is fragmented, compressed or too long",
            ));
        }
        let (len, rest, extended) = match short {
            126 => {
                let Some((len, rest)) = rest.split_first_chunk() else {
                    return Ok(None);
                };
                (u64::from(u16::from_be_bytes(*len)), rest, 2)
            }
            127 => {
                let Some((len, rest)) = rest.split_first_chunk() else {
                    return Ok(None);
                };
                (u64::from_be_bytes(*len), rest, 8)
            }
            short => (u64::from(short), rest, 0),
        };
        if len >> 63 != 0 {
            return Err(Violation::Protocol("a length has its highest bit set"));
        }
        let Some(mask) = rest.first_chunk() else {
            return Ok(None);
        };
        Ok(Some((
            Self {
                fin,
                compressed,
                opcode,
                mask: *mask,
                len,
            },
            2 + extended + 4,
        )))
    }
}

/// Appends the header of an unfragmented frame of ours, which is never masked.
pub(super) fn write_header(out: &mut Vec<u8>, opcode: Opcode, compressed: bool, len: usize) {
    out.push(0x80 | if compressed { 0x40 } else { 0 } | opcode.bits());
    if let Some(short) = u8::try_from(len).ok().filter(|short| *short < 126) {
        out.push(short);
    } else if let Ok(medium) = u16::try_from(len) {
        out.push(126);
        out.extend_from_slice(&medium.to_be_bytes());
    } else {
        out.push(127);
        out.extend_from_slice(&(len as u64).to_be_bytes());
    }
}

/// Takes a client's mask off, in place.
pub(super) fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let wide = u64::from_ne_bytes([
        mask[0], mask[1], mask[2], mask[3], mask[0], mask[1], mask[2], mask[3],
    ]);
    let (words, rest) = payload.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::{Header, Opcode, unmask, write_header};
    use crate::transport::websocket::Violation;

    #[test]
    fn relay_12_the_example_of_the_rfc_is_read() {
        let mut hello = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        let (header, len) = Header::parse(&hello).unwrap().unwrap();
        assert!(header.fin && !header.compressed && header.opcode == Opcode::Text);
        unmask(&mut hello[len..], header.mask);
        assert_eq!(&hello[len..], b"Hello");
    }

    #[test]
    fn relay_12_a_header_is_read_only_when_it_is_whole() {
        let mut bytes = vec![0x82, 0xFF];
        bytes.extend_from_slice(&70_000_u64.to_be_bytes());
        bytes.extend_from_slice(&[1, 2, 3, 4]);
        for end in 0..bytes.len() {
            assert_eq!(Header::parse(&bytes[..end]).unwrap(), None);
        }
        let (header, len) = Header::parse(&bytes).unwrap().unwrap();
        assert_eq!((header.len, header.mask, len), (70_000, [1, 2, 3, 4], 14));
    }

    #[test]
    fn relay_12_what_the_protocol_forbids_is_refused_by_its_first_bytes() {
        let forbidden: [&[u8]; 8] = [
            &[0x91, 0x80], // RSV3
            &[0xA1, 0x80], // RSV2
            &[0x83, 0x80], // reserved data opcode
            &[0x8B, 0x80], // reserved control opcode
            &[0x81, 0x05], // not masked
            &[0x09, 0x80], // fragmented ping
            &[0xC9, 0x80], // compressed ping
            &[0x8A, 0xFE], // pong longer than 125
        ];
        for bytes in forbidden {
            assert!(
                matches!(Header::parse(bytes), Err(Violation::Protocol(_))),
                "{bytes:x?}"
            );
        }
        let negative = [0x81, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(matches!(Header::parse(&negative), Err(Violation::Protocol(_))));
    }

    #[test]
    fn relay_12_lengths_are_written_in_their_shortest_form() {
        for (len, head) in [
            (0, vec![0x81, 0]),
            (125, vec![0x81, 125]),
            (126, vec![0x81, 126, 0, 126]),
            (65_535, vec![0x81, 126, 0xFF, 0xFF]),
            (65_536, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut out = Vec::new();
            write_header(&mut out, Opcode::Text, false, len);
            assert_eq!(out, head);
        }
    }

    #[test]
    fn relay_12_unmasking_is_the_same_at_every_length() {
        let mask = [0xA5, 0x01, 0xFF, 0x10];
        for len in 0..70_usize {
            let plain: Vec<u8> = (0_u8..).take(len).collect();
            let mut masked: Vec<u8> = plain
                .iter()
                .zip(mask.iter().cycle())
                .map(|(byte, key)| byte ^ key)
                .collect();
            unmask(&mut masked, mask);
            assert_eq!(masked, plain);
        }
    }
}
