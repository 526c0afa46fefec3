// How rollouts are sent to other processes, for the other `@osmosis` packages. Not part of the promised
// API: names here may change in any version.
export { portable, sendSamples } from './protocol/portable.ts'
export {
  receiveError,
  receiveFailure,
  sendError,
  sendFailure,
  type SentError,
  type SentFailure,
} from './protocol/sent-error.ts'
