//! Enums whose variants are words of a configuration file.

/// Declares an enum with a word for each variant: `ALL` lists the variants, `name` gives the word, `parse` finds it.
macro_rules! word_enum {
    ($(#[$about:meta])* pub enum $enum:ident { $($(#[$note:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
        pub enum $enum {
            $($(#[$note])* #[serde(rename = $word)] $variant,)*
        }

        impl $enum {
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == word)
            }
        }
    };
}

pub(crate) use word_enum;
