export { main } from './main.ts'
export type { InputStream, OutputStream, CommandContext } from './command/command-context.ts'
