export { main } from './main.ts'
export type { InputStream, OutputStream, CommandSurroundings } from './command/surroundings.ts'
