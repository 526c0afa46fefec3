export { DockerSandbox } from './docker-sandbox.ts'
export type { DockerSandboxOptions } from './start-container.ts'
