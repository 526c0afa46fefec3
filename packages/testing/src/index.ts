export {
  fault,
  type Faults,
  type FaultyReply,
  type OmittedPart,
  type Reply,
  type StatusReply,
} from './policy-reply.ts'
export { type PolicyScript, type PolicyServer, startPolicyServer } from './policy-server.ts'
export { type ReceivedRequest } from './received-request.ts'
export { sseOf } from './sse-text.ts'
