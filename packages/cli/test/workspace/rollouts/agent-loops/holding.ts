import { Adder } from './adder.ts'

// As a pool of database connections does.
setInterval(() => undefined, 60_000)

export const agentLoop = new Adder()
