export { OsmosisChatModel } from './chat-model.ts'
export type { OsmosisChatModelCallOptions, OsmosisChatModelFields } from './model-fields.ts'
