export { activeLogin, type ActiveLogin } from './auth/active-login.ts'
export { CredentialsFile } from './auth/credentials-file.ts'
export { loginByDevice, type DeviceCode, type DeviceLoginOptions } from './auth/device-login.ts'
export { verifyLogin, type Identity } from './auth/identity.ts'
export { forgetLogin, keepLogin, prepareStore } from './auth/keep-login.ts'
export { type Keyring, SystemKeyring } from './auth/keyring.ts'
export { LoginStore, type LoginWarning } from './auth/login-store.ts'
export { type StoredLogin } from './auth/stored-login.ts'
export {
  PlatformClient,
  type PlatformClientOptions,
  type PlatformRequest,
  type Scope,
} from './client.ts'
export { uploadDataset, type UploadOptions } from './datasets/upload-dataset.ts'
export { isJsonObject, objectsOf, textOf, type JsonObject } from './json-object.ts'
export { type Page, readPages } from './paging.ts'
export { type ErrorDetails, PlatformError, type PlatformErrorCode } from './platform-error.ts'
export {
  downloadRunFiles,
  type FailedFile,
  listRunFiles,
  type RunFile,
  type RunFiles,
  type RunFileType,
} from './runs/run-files.ts'
export {
  type Environment,
  type PlatformSettings,
  readPlatformSettings,
  type TokenStore,
} from './settings.ts'
export { type FilePiece, type Pause, Storage } from './storage/storage.ts'
export {
  findGithubCommit,
  type CommitOnGithub,
  type GithubAccess,
} from './workspace/github-commit.ts'
export { findGitWorkspace, git, type GitWorkspace } from './workspace/find-workspace.ts'
