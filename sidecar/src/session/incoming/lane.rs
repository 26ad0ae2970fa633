//! One client's receiving lane: hears what was taken, and notices when the client is gone.

use std::sync::Arc;

use tokio::sync::Notify;

use super::Receiving;
use super::hub::ReceiverId;
use crate::handoff::DeliveryId;
use crate::handoff::receiver::Outlet;
use crate::session::life::LaneLife;

/// Starts the task of a lane. `freed` tells when the client's memory has room again.
pub(super) fn start(receiving: &Arc<Receiving>, id: ReceiverId, outlet: Outlet, freed: Arc<Notify>) {
    let receiving = Arc::clone(receiving);
    let mut life = LaneLife::begin(&receiving.context, &receiving.key);
    tokio::spawn(async move {
        run(&receiving, id, outlet, &freed).await;
        receiving.leave(id, &mut life);
    });
}

async fn run(receiving: &Receiving, id: ReceiverId, mut outlet: Outlet, freed: &Notify) {
    let client = outlet.turns();
    loop {
        // Registered before the arena is asked again, so that no release goes unnoticed in between.
        let room = freed.notified();
        tokio::pin!(room);
        room.as_mut().enable();
        receiving.grant();
        tokio::select! {
            biased;
            taken = outlet.taken() => match taken {
                Some(first) => take(receiving, id, &mut outlet, vec![first]),
                None => return,
            },
            () = client.gone(), if !receiving.has_ended(id) => {
                take(receiving, id, &mut outlet, Vec::new());
                // The end may have come while this waited; what was delivered can still be taken.
                if !receiving.has_ended(id) {
                    return;
                }
            }
            () = room => {}
        }
    }
}

/// Everything that was taken up to now goes out together.
fn take(receiving: &Receiving, id: ReceiverId, outlet: &mut Outlet, mut deliveries: Vec<DeliveryId>) {
    while let Some(next) = outlet.taken_now() {
        deliveries.push(next);
    }
    receiving.taken(id, &deliveries);
}
