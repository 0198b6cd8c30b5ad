//! What one listener has of its own: `listener.name.<its name in small letters>.<property>`, as in Kafka.

use super::{Layer, SettingError, Settings, broker_property, nearest};

/// What the names of such settings begin with.
pub const LISTENER_PREFIX: &str = "listener.name.";

/// Whether a listener can have its own value of this property.
pub fn is_per_listener(property: &str) -> bool {
    property.starts_with("ssl.")
        || (property.starts_with("sasl.") && property != "sasl.mechanism.inter.broker.protocol")
        || matches!(
            property,
            "connections.max.reauth.ms"
                | "kohort.org"
                | "kohort.sasl.plain.without.tls"
                | "kohort.ssl.key.location"
        )
}

impl Settings {
    /// The settings as they are for one listener: its own values win over all others, whatever set them.
    #[must_use]
    pub fn of_listener(&self, name: &str) -> Self {
        let mut values = self.values.clone();
        if let Some(own) = self.of_listeners.get(&name.to_ascii_lowercase()) {
            values.extend(own.clone());
        }
        Self { values, of_listeners: std::collections::BTreeMap::new() }
    }

    /// Everything that listeners have of their own, in the order of names: the whole name, the layer and the value.
    pub fn changed_of_listeners(&self) -> impl Iterator<Item = (String, Layer, &str)> {
        self.of_listeners.iter().flat_map(|(listener, values)| {
            values.iter().filter_map(move |(property, layers)| {
                let (layer, value) = layers.last_key_value()?;
                Some((format!("{LISTENER_PREFIX}{listener}.{property}"), *layer, value.as_str()))
            })
        })
    }

    /// The names of the listeners that have something of their own, in small letters.
    pub fn listeners_with_settings(&self) -> impl Iterator<Item = &str> {
        self.of_listeners.keys().map(String::as_str)
    }

    /// Sets what `place`, a listener's name and a property with a dot between, says.
    pub(super) fn set_of_listener(
        &mut self,
        layer: Layer,
        place: &str,
        value: &str,
    ) -> Result<(), SettingError> {
        let whole = |place: &str| format!("{LISTENER_PREFIX}{place}");
        let (listener, name) = place.split_once('.').unwrap_or((place, ""));
        let property = broker_property(name).filter(|property| is_per_listener(property.name));
        let Some(property) = property else {
            let known = super::BROKER_PROPERTIES.iter().map(|property| property.name);
            let near = nearest(name, known.filter(|name| is_per_listener(name)));
            let near = near.map(|near| whole(&format!("{listener}.{near}")));
            return Err(SettingError::Unknown { name: whole(place), nearest: near });
        };
        if layer >= Layer::DynamicDefault {
            return Err(SettingError::ReadOnly(whole(place)));
        }
        let value = property.normalise(value).map_err(SettingError::Invalid)?;
        let own = self.of_listeners.entry(listener.to_ascii_lowercase()).or_default();
        own.entry(property.name).or_default().insert(layer, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listeners_own_value_wins_over_stronger_layers() {
        let mut settings = Settings::default();
        settings.set(Layer::File, "listener.name.outside.ssl.client.auth", "required").unwrap();
        settings.set(Layer::Flags, "ssl.client.auth", "requested").unwrap();
        assert_eq!(settings.value("ssl.client.auth").as_deref(), Some("requested"));
        assert_eq!(settings.of_listener("OUTSIDE").value("ssl.client.auth").as_deref(), Some("required"));
        assert_eq!(settings.of_listener("INSIDE").value("ssl.client.auth").as_deref(), Some("requested"));
        let changed: Vec<_> = settings.changed_of_listeners().collect();
        assert_eq!(changed, [("listener.name.outside.ssl.client.auth".to_owned(), Layer::File, "required")]);
    }

    #[test]
    fn what_a_listener_cannot_have_of_its_own_is_refused() {
        let mut settings = Settings::default();
        let mut refusal =
            |name: &str, value: &str| settings.set(Layer::File, name, value).unwrap_err().to_string();
        assert_eq!(
            refusal("listener.name.out.ssl.keystore.locaton", "x"),
            "unknown property listener.name.out.ssl.keystore.locaton; did you mean \
             listener.name.out.ssl.keystore.location?"
        );
        assert_eq!(
            refusal("listener.name.out.num.partitions", "3"),
            "unknown property listener.name.out.num.partitions"
        );
        assert_eq!(refusal("listener.name.out", "3"), "unknown property listener.name.out");
        assert_eq!(
            refusal("listener.name.out.ssl.client.auth", "perhaps"),
            "Invalid value perhaps for configuration ssl.client.auth: String must be one of: required, requested, none"
        );
        let dynamic = settings.set(Layer::DynamicBroker, "listener.name.out.ssl.client.auth", "none");
        assert_eq!(dynamic, Err(SettingError::ReadOnly("listener.name.out.ssl.client.auth".to_owned())));
    }
}
