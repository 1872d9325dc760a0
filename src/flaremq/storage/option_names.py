"""Option names that may stand in a ``broker.conf`` but are no rows of ``StoreOptions``.

RocketMQ copies one file into four configuration objects (broker, store, network server, network client) and
never complains about a name that none of them has. We do complain, so we must know the names of the other
three, and the store's names for engines and features that do not exist here. Collected from RocketMQ 4.5 to
5.3 and the development branch; a name in the wrong list costs a warning, a missing one refuses a valid
file, so the lists are generous.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# What broker, remoting and access control read, and at the end the proxy. The store accepts and ignores them without a
# word.
OTHER_LAYERS: Final = frozenset(
    """
    accountStatsEnable accountStatsPrintZeroValues ackMessageThreadPoolNums ackThreadPoolQueueCapacity
    aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond aclEnable adminBrokerThreadPoolNums
    adminBrokerThreadPoolQueueCapacity allowRecallWhenBrokerNotWriteable appendAckAsync appendCkAsync
    asyncSendEnable authConfigPath authenticationEnabled authenticationMetadataProvider
    authenticationProvider authenticationStrategy authenticationWhitelist authorizationEnabled
    authorizationMetadataProvider authorizationProvider authorizationStrategy authorizationWhitelist
    autoCreateSubscriptionGroup autoCreateTopicEnable autoDeleteUnusedStats bindAddress
    broadcastOffsetExpireMaxSecond broadcastOffsetExpireSecond brokerClusterName brokerConfigPath
    brokerElectionPriority brokerFastFailureEnable brokerHeartbeatInterval brokerId brokerIP2 brokerName
    brokerNotActiveTimeoutMillis brokerPermission brokerTopicEnable cgColdReadThreshold
    channelExpiredTimeout channelNotActiveInterval checkSyncStateSetPeriod cleanOfflineBrokerInterval
    clearRetryTopicWhenDeleteTopic clientAsyncSemaphoreValue clientCallbackExecutorThreads
    clientChannelMaxIdleTimeSeconds clientCloseSocketIfTimeout clientManagerThreadPoolQueueCapacity
    clientManageThreadPoolNums clientOnewaySemaphoreValue clientPooledByteBufAllocatorEnable
    clientSocketRcvBufSize clientSocketSndBufSize clientWorkerThreads clusterName clusterTopicEnable
    coldCtrStrategyEnable commercialBaseCount commercialBigCount commercialEnable commercialSizePerMsg
    commercialTimerCount commercialTransCount compatibleWithOldNameSrv compressedRegister configBlackList
    configManagerVersion configName connectTimeoutMillis consumerFallbehindThreshold
    consumerManagerThreadPoolQueueCapacity consumerManageThreadPoolNums consumerOffsetUpdateVersionStep
    controllerAddr controllerHeartBeatTimeoutMills defaultMessageRequestMode defaultPopShareQueueNum
    defaultTopicQueueNums delayOffsetUpdateVersionStep disableCallbackExecutor
    disableConsumeIfConsumerReadSlowly disableNettyWorkerGroup enableBroadcastOffsetStore
    enableCalcFilterBitMap enableConnectionMetrics enableControllerMode enableCreateSysGroup
    enableDetailStat enableFastChannelEventProcess enableLagAndDlqMetrics enableLmqStats
    enableMessageStoreMetrics enableMixedMessageType enableNetWorkFlowControl
    enableNotifyAfterPopOrderLockRelease enableNotifyBeforePopCalculateLag enablePopBatchAck
    enablePopBufferMerge enablePopLog enablePopMessageThreshold enablePopMetrics enablePropertyFilter
    enableReconnectForGoAway enableRegisterProducer enableRemoteEscape enableRemotingMetrics
    enableRequestMetrics enableRetryTopicV2 enableShutdownGracefully enableSingleTopicRegister
    enableSkipLongAwaitingAck enableSlaveActingMaster enableSplitMetadata enableSplitRegistration
    enableStatsMetrics enableTransactionMetrics enableTransparentRetry endTransactionPoolQueueCapacity
    endTransactionThreadPoolNums estimateAccumulation expectConsumerNumUseFilter
    fetchControllerAddrByDnsLookup fetchNamesrvAddrByAddressServer fetchNameSrvAddrByDnsLookup
    fetchNamesrvAddrInterval filterDataCleanTimeSpan filterServerNums filterSupportRetry
    flushConsumerOffsetHistoryInterval flushConsumerOffsetInterval forceRegister forwardTimeout
    globalColdReadThreshold heartbeatThreadPoolNums heartbeatThreadPoolQueueCapacity highSpeedMode
    inBrokerContainer initAuthenticationUser initPopOffsetByCheckMsgInMem
    innerClientAuthenticationCredentials isolateLogEnable litePullMessageEnable
    litePullMessageThreadPoolNums litePullThreadPoolQueueCapacity loadBalancePollNameServerInterval
    loadBalanceProcessorThreadPoolNums loadBalanceThreadPoolQueueCapacity lockInStrictMode
    longPollingEnable maxDelayTime maxErrorRateOfBloomFilter maxPopPollingSize
    maxReconnectIntervalTimeSeconds maxStatsIdleTimeInMinutes messageStorePlugIn
    metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills
    metricLoggingExporterIntervalInMills metricsExporterType metricsGrpcExporterHeader
    metricsGrpcExporterTarget metricsInDelta metricsLabel metricsOtelCardinalityLimit
    metricsExportBatchMaxDataPoints
    metricsPromExporterHost metricsPromExporterPort migrateAuthFromV1Enabled msgTraceTopicName namesrvAddr
    notifyConsumerIdsChangedEnable popCkMaxBufferSize popCkOffsetMaxQueueSize popCkStayBufferTime
    popCkStayBufferTimeOut popConsumerFSServiceInit popConsumerKVServiceEnable popConsumerKVServiceInit
    popConsumerKVServiceLog popFromRetryProbability popInflightMessageThreshold
    popLongPollingForceNotifyInterval popPollingMapExpireTimeSeconds popPollingMapSize popPollingSize
    popResponseReturnActualRetryTopic popReviveMaxAttemptTimes popReviveMaxReturnSizePerRead
    printChannelGroups printChannelGroupsMinNum processReplyMessageThreadPoolNums
    pullMessageThreadPoolNums pullThreadPoolQueueCapacity putMessageFutureThreadPoolNums
    putThreadPoolQueueCapacity queryMessageThreadPoolNums queryThreadPoolQueueCapacity
    realTimeNotifyConsumerChange recallMessageEnable recoverConcurrently recoverThreadPoolNums regionId
    registerBrokerTimeoutMills registerNameServerPeriod rejectPullConsumerEnable rejectTransactionMessage
    replyThreadPoolQueueCapacity retrieveMessageFromPopRetryTopicV1 reviveAckWaitMs reviveInterval
    reviveMaxSlow reviveQueueNum reviveScanTime rocketmqHome scanAvailableNameSrv
    sendHeartbeatTimeoutMillis sendMessageThreadPoolNums sendThreadPoolQueueCapacity
    serverAsyncSemaphoreValue serverCallbackExecutorThreads serverChannelMaxIdleTimeSeconds
    serverLoadBalancerEnable serverLoadBalancerEnabled serverNettyWorkerGroupEnable
    serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable serverSelectorThreads
    serverSocketBacklog serverSocketRcvBufSize serverSocketSndBufSize serverWorkerThreads
    shortPollingTimeMills shutdownWaitTimeSeconds skipPreOnline skipWhenCKRePutReachMaxTimes
    slaveReadEnable socksProxyConfig splitMetadataSize splitRegistrationSize
    startAcceptSendRequestTimeStamp statefulAuthenticationCacheExpiredSecond
    statefulAuthenticationCacheMaxNum statefulAuthorizationCacheExpiredSecond
    statefulAuthorizationCacheMaxNum storeReplyMessageEnable subscriptionExpiredTimeout
    syncBrokerMemberGroupPeriod syncBrokerMetadataPeriod syncControllerMetadataPeriod traceOn
    traceTopicEnable transactionCheckInterval transactionCheckMax transactionMetricFlushInterval
    transactionOpBatchInterval transactionOpMsgMaxSize transactionTimeOut transferMsgByHeap
    updateNameServerAddrPeriod useEpollNativeSelector usePIDColdCtrStrategy userCacheExpiredSecond
    userCacheMaxNum userCacheRefreshSecond useServerSideResetOffset useStaticSubscription useTLS
    validateSystemTopicWhenUpdateTopic waitTimeMillsInAckQueue waitTimeMillsInAdminBrokerQueue
    waitTimeMillsInHeartbeatQueue waitTimeMillsInLitePullQueue waitTimeMillsInPullQueue
    waitTimeMillsInSendQueue waitTimeMillsInTransactionQueue writeBufferHighWaterMark
    writeBufferLowWaterMark

    defaultInvisibleTimeMills enableProxyAutoRenew enableTopicMessageTypeCheck
    grpcClientConsumerLongPollingBatchSize grpcClientConsumerMaxLongPollingTimeoutMillis
    grpcClientConsumerMinLongPollingTimeoutMillis grpcClientIdleTimeMills
    grpcClientProducerBackoffInitialMillis grpcClientProducerBackoffMaxMillis
    grpcClientProducerBackoffMultiplier grpcClientProducerMaxAttempts grpcMaxInboundMessageSize
    grpcServerPort grpcShutdownTimeSeconds invisibleTimeMillisWhenClear maxDelayTimeMills
    maxInvisibleTimeMills maxMessageGroupSize maxTransactionRecoverySecond maxUserPropertySize
    minInvisibleTimeMillsForRecv renewAheadTimeMillis renewMaxTimeMillis renewSchedulePeriodMillis
    tlsTestModeEnable userPropertyMaxNum
    """.split()  # noqa: SIM905  (a list would take a line for each name)
)

# Our own options of the broker and of the network, which RocketMQ does not have: one broker.conf serves the store too.
OTHER_LAYERS_OWN: Final = frozenset(
    """
    connectionsMax connectionsPerAddressMax consumerOffsetsMax filterExpressionBytesMax firstFrameSeconds
    frameSeconds groupsMax grpcCallsMax grpcClientsMax grpcConcurrentStreamsMax grpcReceiptKeyFile
    grpcTlsMode
    haPeerAllow haBindAddress haConnectionsMax halfReceivedBytesMax
    haSecretFile haTlsMode haTlsTrustPath heldPullsMax inFlightBytesMax inFlightMax insecureBindEnable logLevel
    metricsInsecureBindEnable metricsNames metricsOfflineGroups
    queueLocksMax queuesPerTopicMax registrationsMax subscriptionsPerGroupMax tlsCertPath tlsClientAuth
    tlsKeyPasswordFile tlsKeyPath tlsMode tlsOutgoing tlsTrustPath topicsMax writeBufferHighBytes writeStallSeconds
    """.split()  # noqa: SIM905
)

# Options of RocketMQ's store for what we do not have: timer wheel, compaction, RocksDB, DLedger, controller
# mode, light queues, its thread pools and its swapping of mappings. Ignored with a warning.
NOT_IMPLEMENTED: Final = frozenset(
    """
    accessMessageInMemoryHotRatio batchDispatchRequestThreadPoolNums
    batchWriteKvCqSize bottomMostCompressionTypeForConsumeQueueStore cleanRocksDBDirtyCQIntervalMin
    cleanSwapedMapInterval coldDataFlowControlEnable coldDataScanEnable combineAssignOffsetCQType
    combineCQEnableCheckSelf combineCQLoadingCQTypes combineCQMaxExtraSearchCommitLogFiles
    combineCQPreferCQType commitLogForceSwapMapInterval commitLogSwapMapInterval
    commitLogSwapMapReserveFileNum compactionCqMappedFileSize compactionMappedFileSize
    compactionScheduleInternal compactionThreadNum correctLogicMinOffsetForceInterval
    correctLogicMinOffsetSleepInterval debugLockEnable disappearTimeAfterStart diskFallRecorded
    dispatchCqCacheNum dispatchCqThreads dispatchFromSenderThread dLegerGroup dLegerPeers dLegerSelfId
    enableAcceleratedRecovery enableAsyncReput enableBatchPush
    enableBuildConsumeQueueConcurrently enableCleanExpiredOffset enableCompaction
    enableLmq enableLogConsumeQueueRepeatedlyBuildWhenRecover enableMultiDispatch enableRocksDBLog
    enableRunningFlagsInFlush enableScheduleAsyncDeliver enableScheduleMessageStats
    logicalDiskSpaceCleanForciblyThreshold logicQueueForceSwapMapInterval
    logicQueueSwapMapInterval logicQueueSwapMapReserveFileNum mappedFileSizeTimerLog mappedFileSwapEnable
    maxAsyncPutMessageRequests maxBatchDeleteFilesNum maxChecksumRange maxConsumeQueueScan
    maxLmqConsumeQueueNum maxOffsetMapSize maxRecoveryCommitlogFiles
    maxSlaveResendLength maxTopicLength memTableFlushInterval memTableFlushIntervalMs preferredLeaderId
    pullBatchMaxMessageCount putConsumeQueueDataByFileChannel putMessageTimeout putMsgIndexHightWater
    realTimePersistRocksDBConfig recheckReputOffsetFromCq replicasPerDiskPartition rocksdbCompressionType
    rocksdbCQDoubleWriteEnable rocksdbFlushWalFrequency rocksdbWalFileRollingThreshold
    sampleCountThreshold sampleSteps scheduleAsyncDeliverMaxPendingLimit
    scheduleAsyncDeliverMaxResendNum2Blocked searchBcqByCacheEnable spinLockCollisionRetreatOptimalDegree
    statRocksDBCQIntervalSec storePathBrokerIdentity storePathDLedgerCommitLog storePathEpochFile
    storeType syncMasterFlushOffsetWhenStartup timerColdDataCheckIntervalMs
    timerCongestNumEachSlot timerEnableCheckMetrics timerEnableRetryUntilSuccess timerFlushIntervalMs
    timerGetMessageThreadNum timerInterceptDelayLevel timerMaxDelaySec timerMetricSmallThreshold
    timerPrecisionMs timerProgressLogIntervalMs timerPutMessageThreadNum timerRollWindowSlot
    timerSkipUnknownError timerStopEnqueue timerWheelEnable topicQueueLockNum
    transferMetadataJsonToRocksdb transferOffsetJsonToRocksdb useABSLock wakeCommitWhenPutMessage
    wakeFlushWhenPutMessage writeWithoutMmap
    """.split()  # noqa: SIM905  (a list would take a line for each name)
)

# Names that many published configurations carry although no supported RocketMQ has an option of that name.
IGNORED_BY_ROCKETMQ: Final[Mapping[str, str]] = {
    "storePathConsumeQueue": "storePathConsumeQueue is ignored, as in RocketMQ, which has no such option: "
    "the queues are in consumequeue below storePathRootDir",
    "storePathIndex": "storePathIndex is ignored, as in RocketMQ, which has no such option: "
    "the key index is in index below storePathRootDir",
    "storeCheckpoint": "storeCheckpoint is ignored, as in RocketMQ, which has no such option: "
    "the file is checkpoint below storePathRootDir",
    "abortFile": "abortFile is ignored, as in RocketMQ, which has no such option: "
    "the file is abort below storePathRootDir",
    "mapedFileSizeCommitLog": "mapedFileSizeCommitLog is ignored, as in RocketMQ since 4.5.2: "
    "the option is now spelled mappedFileSizeCommitLog",
    "mapedFileSizeConsumeQueue": "mapedFileSizeConsumeQueue is ignored, as in RocketMQ since 4.5.2: "
    "the option is now spelled mappedFileSizeConsumeQueue",
}
