//! The words in which the table describes a message.

/// A request or response: its versions, where they become flexible, its fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    /// The lowest version.
    pub(super) min: i16,
    /// The highest version.
    pub(super) max: i16,
    /// The first version with compact lengths and tagged fields; `i16::MAX` for none.
    pub(super) flexible: i16,
    /// The fields.
    pub(super) root: &'static Struct,
}

/// A group of fields.
#[derive(Debug)]
pub(super) struct Struct {
    /// The most bytes that the decoded struct takes in memory, what it points to not counted.
    pub(super) memory: u16,
    /// The fields, in their order on the wire; tagged ones may stand anywhere.
    pub(super) fields: &'static [Field],
}

/// One field of a struct.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    /// Its name in Kafka's schema.
    pub(super) name: &'static str,
    /// What it holds.
    pub(super) kind: Kind,
    /// The first and the last version that have the field.
    pub(super) versions: (i16, i16),
    /// The versions in which it may be null.
    pub(super) nullable: (i16, i16),
    /// Its tag, if it stands among the tagged fields.
    pub(super) tag: Option<u32>,
}

/// What a field holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// A number, boolean or uuid of so many bytes.
    Fixed(u8),
    /// UTF-8 behind its length.
    Text,
    /// Bytes or records behind their length.
    Blob,
    /// Elements of one kind behind their number.
    Array(&'static Self),
    /// Fields.
    Struct(&'static Struct),
}

pub(super) const fn field(name: &'static str, kind: Kind, first: i16, last: i16) -> Field {
    Field { name, kind, versions: (first, last), nullable: (1, 0), tag: None }
}

impl Field {
    pub(super) const fn nullable(self, first: i16, last: i16) -> Self {
        Self { nullable: (first, last), ..self }
    }

    pub(super) const fn tagged(self, tag: u32) -> Self {
        Self { tag: Some(tag), ..self }
    }

    /// True if `version` has the field.
    pub(super) const fn is_in(&self, version: i16) -> bool {
        self.versions.0 <= version && version <= self.versions.1
    }

    /// True if the field may be null in `version`.
    pub(super) const fn is_nullable_in(&self, version: i16) -> bool {
        self.nullable.0 <= version && version <= self.nullable.1
    }
}

impl Kind {
    /// The most bytes that one decoded element of this kind takes in an array.
    pub(super) fn memory(self) -> u64 {
        match self {
            Self::Fixed(bytes) => bytes.into(),
            Self::Text | Self::Blob => 32,
            Self::Array(_) => 24,
            Self::Struct(fields) => fields.memory.into(),
        }
    }
}
