//! The settings that a model refuses, learned from refusals that name a setting.

use std::sync::Arc;

use protocol::{Effort, Settings};

use crate::setting::{ModelSetting, SettingComplaint, Unsupported};
use crate::{ModelRequest, ProviderWire};

/// The settings that one model does not take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RefusedSettings {
    /// Left out of every request.
    dropped: Vec<ModelSetting>,
    /// Levels of effort that it does not know.
    efforts: Vec<Effort>,
    /// The model takes one of temperature and top-p.
    one_of_two: bool,
    /// The model takes tools only when it is told not to think.
    no_thought_with_tools: bool,
    /// The model knows the longest answer by the other of the two names.
    other_limit: bool,
}

impl RefusedSettings {
    /// The request as this model takes it.
    pub(crate) fn apply_to(&self, request: &ModelRequest) -> ModelRequest {
        let mut request = request.clone();
        for setting in &self.dropped {
            if *setting != ModelSetting::TokenLimit || !request.must_bound {
                leave_out(*setting, &mut request);
            }
        }
        let settings = &mut request.settings;
        if self.one_of_two && settings.temperature.is_some() {
            settings.top_p = None;
        }
        settings.reasoning_effort = settings.reasoning_effort.filter(|effort| !self.efforts.contains(effort));
        if self.no_thought_with_tools && !request.tools.is_empty() {
            settings.reasoning_effort = Some(Effort::None);
        }
        request.other_limit = self.other_limit;
        request
    }

    /// Takes in what was said of a request as it was sent.
    pub(crate) fn learn(&mut self, refused: &Unsupported, sent: &ModelRequest, wire: ProviderWire) {
        let settings = &sent.settings;
        match refused.complaint {
            SettingComplaint::Together if settings.temperature.is_some() && settings.top_p.is_some() => {
                self.one_of_two = true;
            }
            SettingComplaint::ThinkingWithTools
                if !sent.tools.is_empty() && settings.reasoning_effort != Some(Effort::None) =>
            {
                self.no_thought_with_tools = true;
            }
            SettingComplaint::Refused
            | SettingComplaint::Value
            | SettingComplaint::Together
            | SettingComplaint::ThinkingWithTools => {
                let present = refused.named.iter().find(|setting| is_in(**setting, sent));
                if let Some(setting) = present {
                    self.drop_setting(*setting, refused.complaint, sent, wire);
                }
            }
        }
    }

    fn drop_setting(
        &mut self,
        setting: ModelSetting,
        complaint: SettingComplaint,
        sent: &ModelRequest,
        wire: ProviderWire,
    ) {
        match (setting, sent.settings.reasoning_effort) {
            // The length that was asked for is too much, which is no matter of the name.
            (ModelSetting::TokenLimit, _) if complaint == SettingComplaint::Value => {}
            (ModelSetting::TokenLimit, _) if wire == ProviderWire::Chat && !sent.other_limit => {
                self.other_limit = true
            }
            (ModelSetting::Effort, Some(effort)) if complaint == SettingComplaint::Value => {
                self.efforts.push(effort)
            }
            _ => self.dropped.push(setting),
        }
    }

    /// The names of what was not known before, for the log.
    pub(crate) fn new_names(&self, before: &Self) -> Vec<&'static str> {
        let dropped = self.dropped.iter().filter(|setting| !before.dropped.contains(setting));
        let mut names: Vec<_> = dropped.map(|setting| setting.name()).collect();
        let others = [
            (self.efforts.len() > before.efforts.len(), "a level of reasoning_effort"),
            (self.one_of_two && !before.one_of_two, "top_p beside temperature"),
            (self.no_thought_with_tools && !before.no_thought_with_tools, "tools while it thinks"),
            (self.other_limit && !before.other_limit, "the name of the longest answer"),
        ];
        names.extend(others.into_iter().filter(|(new, _)| *new).map(|(_, name)| name));
        names
    }

    /// Both together.
    pub(crate) fn join(&mut self, other: &Self) {
        add_new(&mut self.dropped, &other.dropped);
        add_new(&mut self.efforts, &other.efforts);
        self.one_of_two |= other.one_of_two;
        self.no_thought_with_tools |= other.no_thought_with_tools;
        self.other_limit |= other.other_limit;
    }
}

fn add_new<T: Copy + PartialEq>(all: &mut Vec<T>, more: &[T]) {
    for new in more {
        if !all.contains(new) {
            all.push(*new);
        }
    }
}

fn is_in(setting: ModelSetting, request: &ModelRequest) -> bool {
    let Settings { temperature, top_p, frequency_penalty, repeat_penalty, .. } = &request.settings;
    let set = match setting {
        ModelSetting::Temperature => temperature.is_some(),
        ModelSetting::TopP => top_p.is_some(),
        ModelSetting::FrequencyPenalty => frequency_penalty.is_some() || repeat_penalty.is_some(),
        ModelSetting::PresencePenalty => request.settings.presence_penalty.is_some(),
        ModelSetting::TokenLimit => request.settings.max_tokens.is_some(),
        ModelSetting::Effort => request.settings.reasoning_effort.is_some(),
        ModelSetting::StreamOptions => request.stream && !request.no_stream_options,
        ModelSetting::Extra(_) => false,
    };
    set || setting.names().any(|name| request.extra.contains_key(name))
}

fn leave_out(setting: ModelSetting, request: &mut ModelRequest) {
    let settings = &mut request.settings;
    match setting {
        ModelSetting::Temperature => settings.temperature = None,
        ModelSetting::TopP => settings.top_p = None,
        ModelSetting::FrequencyPenalty => {
            (settings.frequency_penalty, settings.repeat_penalty) = (None, None)
        }
        ModelSetting::PresencePenalty => settings.presence_penalty = None,
        ModelSetting::TokenLimit => settings.max_tokens = None,
        ModelSetting::Effort => settings.reasoning_effort = None,
        ModelSetting::StreamOptions => request.no_stream_options = true,
        ModelSetting::Extra(_) => {}
    }
    if setting.names().any(|name| request.extra.contains_key(name)) {
        let extra = Arc::make_mut(&mut request.extra);
        extra.retain(|name, _| !setting.names().any(|left_out| left_out == name));
    }
}
