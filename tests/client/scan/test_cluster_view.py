"""Where the queues of a cluster end is asked of masters alone."""

from __future__ import annotations

import asyncio

import pytest

from flaremq.client.instance import ClientInstance
from flaremq.client.options import ProducerOptions
from flaremq.client.scan.cluster_view import ClusterView, Extent
from flaremq.client.scan.queue_pulls import QueuePulls
from flaremq.errors import UnavailableError
from flaremq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from flaremq.protocol.codes import RequestCode
from tests.support.fake_cluster import FakeBroker, fake_cluster


@pytest.mark.parametrize("master", [None, "127.0.0.1:1"])
def test_a_slave_that_may_be_behind_is_not_asked_for_the_ends_of_queues(master: str | None) -> None:
    async def story() -> None:
        async with fake_cluster() as cluster:
            slave = FakeBroker("broker-a")
            await slave.start()
            addresses = {1: slave.address} | ({} if master is None else {0: master})
            cluster.name_server.routes["T"] = TopicRouteData(
                broker_datas=(BrokerData(cluster="C", broker_name="broker-a", broker_addrs=addresses),),
                queue_datas=(QueueData(broker_name="broker-a", read_queue_nums=2, write_queue_nums=2),),
            )
            instance = ClientInstance(cluster.address, ProducerOptions())
            await instance.start()
            view = ClusterView(instance, QueuePulls(instance, group="g", retry_seconds=0.2))
            told = "has no master at the moment" if master is None else "127.0.0.1:1"
            with pytest.raises(UnavailableError, match=told):
                await view.extents(["T"])
            with pytest.raises(UnavailableError, match=told):
                await view.offset_by_time(Extent("T", "broker-a", 0, 0, 0), 1)
            asked = slave.of(
                RequestCode.GET_MAX_OFFSET, RequestCode.GET_TOPIC_STATS_INFO, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
            )
            assert asked == []
            await instance.stop()
            await slave.stop()

    asyncio.run(story())
