//! An app folder as validated types.
//!
//! [`load`] reads one folder, [`load_all`] every folder of `apps/`. Its result needs no further checks; a mistake
//! comes out as a [`Problem`] that names the file, the line and what to write instead. The server's own
//! configuration is read through the same [`source`].

mod app_files;
mod classifier;
mod context;
mod external_tools;
mod failure;
mod folder;
mod front;
mod images;
mod instructions;
mod knowledge;
mod plausible;
mod ranges;
mod record_types;
pub mod relative_dates;
mod section;
pub mod source;
mod template;
mod tool_ref;
mod types;
mod words;

pub use app_files::AppFiles;
pub use classifier::{BUCKETS, CLASSIFIER_VERSION, Classifier, MAX_MATTERS, MatterWeights, MessageClass};
pub use context::{ContextRules, DocumentUse, Fragment, HistoryRules, HistoryStyle, Persona, Summarise};
pub use external_tools::{
    AnswerPart, AppMcpServer, AppMcpTransport, BodyTemplate, FlowRule, HttpMethod, HttpTool, JsonTemplate,
    Names, Rendered, RenderedBody, RequestTemplate, SandboxTool, TextTemplate, UrlTemplate, header_values,
};
pub use failure::{FailureCause, FailureReplies};
pub use folder::{
    ANY_SECTION, Apps, CONTINUES, Example, Examples, MAX_TOOL_NAME_CHARS, MAX_TOOLS, check, check_examples,
    check_object_schema, examples, folders, id, is_tool_name, learned_file, load, load_all, tool_arguments,
};
pub use images::{ImageRules, WithoutVision};
pub use instructions::instructions_told;
pub use knowledge::{
    KnowledgeFile, KnowledgeFolder, KnowledgeRules, MAX_KNOWLEDGE_BYTES, MAX_KNOWLEDGE_FILE_BYTES,
    MAX_KNOWLEDGE_FILES,
};
pub use plausible::Plausible;
pub use ranges::{OutOfRange, Ranges, Within};
pub use record_types::{RECORD_FORMAT, RecordType, TargetRange, record_validator};
pub use section::{Section, SectionData, SectionItems, SectionText, ShortSection};
pub use source::Problem;
pub use tool_ref::ToolRef;
pub use types::{
    ANY_MODEL, AdjustedTool, AnswerForm, App, AppBudget, AtLimit, DeclaredClientTool, DeclaredRecordTool,
    DeclaredTool, ExtractionRules, Inject, LoopLimits, MemoryRules, Permission, RecordAction, ToolKind,
    Webhook,
};
