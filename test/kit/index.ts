// What the tests of the packages share. Not published.
export {
  callAdd,
  execute,
  messagesOf,
  rewardsOf,
  rolloutOn,
  sampleIds,
  sampleOf,
  separatesRollouts,
  type ExecuteOptions,
} from './adapter-rollouts.ts'
export { addressForms, type AddressForm } from './address-forms.ts'
export {
  calculatorRequest,
  isNewestVersion,
  printedBy,
  runExampleContract,
  runMigrationContract,
  showExamples,
  testPeerRange,
  versionIn,
} from './adapter-examples.ts'
export { blame } from './blame.ts'
export { countAlive } from './count-alive.ts'
export { freePort } from './free-port.ts'
export { runs } from './generated-runs.ts'
export { FakeController, type CallbackAnswer, type ReceivedCallback } from './fake-controller.ts'
export { FakeTrainer, hang, reset, said, type LoopTrainerAnswer } from './fake-trainer.ts'
export { servesWhereItIsKept } from './other-rollout.ts'
export { post, statusAndBody } from './http-calls.ts'
export { HttpPeer, OwnershipCollector, type PeerRequest } from './http-peer.ts'
export { journalEvents, journalLine } from './journal-lines.ts'
export { storedRollouts } from './stored-rollouts.ts'
export { randomNumbers } from './random-numbers.ts'
export { LeaseClient, LeaseHandle, type AcceptedLease, type PolledResult } from './lease-client.ts'
export { LossyProxy } from './lossy-proxy.ts'
export {
  answerStream,
  chunk,
  eventStream,
  sendJson,
  sendStream,
  startPolicyEndpoint,
  usage,
  type TestPolicyEndpoint,
  type ReceivedCall,
} from './policy-endpoint.ts'
export { madeEvent, madeManifest, madeRows, madeStep, type MadeManifest } from './made-runs.ts'
export { PlatformStandIn } from './platform-stand-in/platform-stand-in.ts'
export { refusal } from './platform-stand-in/stand-in-request.ts'
export { metricsIn, type Metrics } from './prometheus-text.ts'
export { recordingLogger, type LogLine } from './recording-logger.ts'
export { RedisPair } from './redis/redis-pair.ts'
export { RedisSentinels } from './redis/redis-sentinels.ts'
export { startRedis, type RedisServer, type RedisServerOptions } from './redis/redis-server.ts'
export { TcpProxy } from './redis/tcp-proxy.ts'
export { readCertificates, tlsCertificates } from './redis/tls-certificates.ts'
export { resolveNames } from './resolve-names.ts'
export { isRunning, startServerProcess, type TestServerProcess } from './server-process.ts'
export { temporaryFolder } from './temporary-folder.ts'
export { FakeTinker, type TinkerAnswer, type TinkerRequest } from './tinker/fake-tinker.ts'
export { tokenModelFolder } from './tinker/model-folder.ts'
export { tokenAnswer } from './token-answer.ts'
export {
  missingPrograms,
  onlyIf,
  pythonWithModels,
  pythonWithTorch,
  refuseWhereAllIsInstalled,
  tinyTransformer,
  withModels,
  withPrograms,
  withTorch,
  type TestsWithNeeds,
} from './with-programs.ts'
