//! Nodes: stopped, started, frozen.

use std::sync::Arc;

use super::{Broker, listen};
use crate::broker::error::BrokerError;
use crate::broker::server;

impl Broker {
    /// Stops a node: its connections are cut, leaders and coordinators move to other replicas at once. Partitions
    /// that only it holds have no leader until it is started again. Its logs are kept.
    ///
    /// # Errors
    /// [`BrokerError::UnknownNode`].
    pub async fn stop_node(&self, node: i32) -> Result<(), BrokerError> {
        self.address(node)?;
        let listening = self.shared.listening().remove(&node);
        if let Some(listening) = listening {
            listening.close().await;
        }
        self.shared.cluster().set_up(node, false);
        self.shared.announce();
        Ok(())
    }

    /// Starts a stopped node again, on the same port.
    ///
    /// # Errors
    /// [`BrokerError::UnknownNode`]; [`BrokerError::Listen`] when its port is taken now.
    pub async fn start_node(&self, node: i32) -> Result<(), BrokerError> {
        let known = self.shared.cluster().nodes.get(&node).cloned().ok_or(BrokerError::UnknownNode(node))?;
        if known.up {
            return Ok(());
        }
        let (listener, _) =
            listen(self.shared.config.network, &self.dialer, (node, &known.host, known.port)).await?;
        self.shared.cluster().set_up(node, true);
        let serving = server::serve(Arc::clone(&self.shared), node, listener);
        self.shared.listening().insert(node, serving);
        self.shared.announce();
        Ok(())
    }

    /// Freezes a node, as SIGSTOP does: its connections stay open and nothing is answered; it stays leader and
    /// coordinator, and does nothing as either.
    ///
    /// # Errors
    /// [`BrokerError::UnknownNode`].
    pub fn freeze_node(&self, node: i32) -> Result<(), BrokerError> {
        self.address(node)?;
        self.shared.cluster().freeze(node);
        Ok(())
    }

    /// Lets a frozen node go on where it was.
    pub fn thaw_node(&self, node: i32) {
        self.shared.cluster().thaw(node);
        self.shared.announce();
    }
}
