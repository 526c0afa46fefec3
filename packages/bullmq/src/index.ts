export { QueueKeys } from './connection/queue-keys.ts'
