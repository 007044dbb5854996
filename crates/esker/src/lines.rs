//! Files of JSON lines: plain, gzip or zstd by their extension, `-` for a pipe.

use std::{
    fs::File,
    io::{self, BufRead, BufWriter, Read, Write},
    path::Path,
};

use flate2::{read::MultiGzDecoder, write::GzEncoder};

/// The compression that a file's name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Self::Gzip,
            Some("zst" | "zstd") => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// Whether a path means standard input or output.
pub(crate) fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opens a file for reading; `wrap` sees the bytes as they lie on the disk.
pub(crate) fn open<R: Read + Send + 'static>(
    path: &Path,
    wrap: impl FnOnce(Box<dyn Read + Send>) -> R,
) -> io::Result<Box<dyn Read + Send>> {
    if is_pipe(path) {
        return Ok(Box::new(wrap(Box::new(io::stdin()))));
    }
    let raw = wrap(Box::new(File::open(path)?));
    Ok(match Compression::of(path) {
        Compression::None => Box::new(raw),
        Compression::Gzip => Box::new(MultiGzDecoder::new(io::BufReader::with_capacity(1 << 16, raw))),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(raw)?),
    })
}

/// What [`read_line`] found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line, appended without its end.
    Whole,
    /// A line longer than the bound; it was skipped.
    TooLong,
    /// Nothing more.
    End,
}

/// Appends the next line to `into`, keeping at most `bound` bytes of it in memory.
pub(crate) fn read_line(input: &mut impl BufRead, bound: usize, into: &mut Vec<u8>) -> io::Result<Line> {
    let start = into.len();
    let read = input.take(bound as u64 + 1).read_until(b'\n', into)?;
    if into.last() == Some(&b'\n') && read > 0 {
        into.pop();
        return Ok(Line::Whole);
    }
    match read {
        0 => Ok(Line::End),
        _ if read <= bound => Ok(Line::Whole),
        _ => {
            into.truncate(start);
            input.skip_until(b'\n')?;
            Ok(Line::TooLong)
        }
    }
}

/// A file, or standard output, that lines are written to.
pub(crate) enum Output {
    /// As it is.
    Plain(BufWriter<Box<dyn Write + Send>>),
    /// Through gzip.
    Gzip(BufWriter<GzEncoder<Box<dyn Write + Send>>>),
    /// Through zstd.
    Zstd(BufWriter<zstd::stream::write::Encoder<'static, Box<dyn Write + Send>>>),
}

const BUFFER: usize = 1 << 18;

impl Output {
    /// Makes the file, over one of the same name.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        if is_pipe(path) {
            return Ok(Self::Plain(BufWriter::with_capacity(
                BUFFER,
                Box::new(io::stdout()),
            )));
        }
        let file: Box<dyn Write + Send> = Box::new(File::create(path)?);
        Ok(match Compression::of(path) {
            Compression::None => Self::Plain(BufWriter::with_capacity(BUFFER, file)),
            Compression::Gzip => Self::Gzip(BufWriter::with_capacity(
                BUFFER,
                GzEncoder::new(file, flate2::Compression::default()),
            )),
            Compression::Zstd => Self::Zstd(BufWriter::with_capacity(
                BUFFER,
                zstd::stream::write::Encoder::new(file, 0)?,
            )),
        })
    }

    /// Writes one line.
    pub(crate) fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let writer: &mut dyn Write = match self {
            Self::Plain(writer) => writer,
            Self::Gzip(writer) => writer,
            Self::Zstd(writer) => writer,
        };
        writer.write_all(line)?;
        writer.write_all(b"\n")
    }

    /// Ends the file: everything is written, the compressed stream has its end.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(mut writer) => writer.flush(),
            Self::Gzip(writer) => writer.into_inner()?.finish()?.flush(),
            Self::Zstd(writer) => writer.into_inner()?.finish()?.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::{Line, read_line};

    #[test]
    fn lines_are_bounded_and_the_rest_of_a_long_one_is_skipped() {
        let mut input = BufReader::with_capacity(3, &b"one\n\nfour5\n12345\nlast"[..]);
        let mut next = || {
            let mut line = b">".to_vec();
            let found = read_line(&mut input, 5, &mut line).unwrap();
            (found, String::from_utf8(line).unwrap())
        };
        assert_eq!(next(), (Line::Whole, ">one".into()));
        assert_eq!(next(), (Line::Whole, ">".into()));
        assert_eq!(next(), (Line::Whole, ">four5".into()));
        assert_eq!(next(), (Line::Whole, ">12345".into()));
        assert_eq!(next(), (Line::Whole, ">last".into()));
        assert_eq!(next(), (Line::End, ">".into()));
        let mut input = &b"123456\nnext\n"[..];
        let mut line = Vec::new();
        assert_eq!(read_line(&mut input, 5, &mut line).unwrap(), Line::TooLong);
        assert_eq!(read_line(&mut input, 5, &mut line).unwrap(), Line::Whole);
        assert_eq!(line, b"next");
    }
}
